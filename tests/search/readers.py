"""A reader in a process of its own, which keeps an index open while others change it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sentemb.search.documents import Document
from sentemb.search.index import SearchIndex
from sentemb.search.passages import Span
from sentemb.search.searching import Hit
from tests.search.bag_of_words import FewWords


class Reader:
    """Client for an index in another process, with the methods that tests need."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.search.readers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def open(self, folder: Path) -> None:
        """Open an index and keep it open until the next one."""
        self._ask("open", str(folder))

    def search(self, query: str, k: int, **options: Any) -> list[Hit]:
        """Search the index."""
        rows = self._ask("search", query, k, options)
        return [Hit(*row, passage=passage and Span(*passage)) for *row, passage in rows]

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        """Return documents by id."""
        return [None if row is None else Document(*row) for row in self._ask("get", list(ids))]

    def count(self) -> int:
        """Return the number of documents."""
        return int(self._ask("count"))

    def __len__(self) -> int:
        return self.count()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, *question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Answer a line for each line."""
    index = None
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "open":
            index = SearchIndex.load(rest[0], FewWords())
            answer: Any = None
        else:
            assert index is not None
            answer = _answer(index, what, rest)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answer(index: SearchIndex, what: str, rest: list[Any]) -> Any:
    if what == "count":
        return index.count()
    if what == "get":
        return [None if one is None else (one.text, one.id, one.metadata) for one in index.get(rest[0])]
    query, k, options = rest
    hits = index.search(query, k, **options)
    return [(hit.id, hit.score, hit.text, hit.metadata, hit.passage) for hit in hits]


if __name__ == "__main__":
    main()
