"""Other processes that share an index: a reader that keeps it open, and changes that a test can kill.

`python -m tests.search.others read` answers questions; `… fork` forks for each change. The latter has not
opened a database or imported torch, so that a fork is safe and takes a few milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sentemb.search.documents import Document
from sentemb.search.index import SearchIndex
from sentemb.search.passages import Span
from sentemb.search.searching import Hit
from tests.search.bag_of_words import FewWords


class _Process:
    """A program that answers a line of JSON for each line."""

    def __init__(self, way: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.search.others", way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def ask(self, *question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Reader(_Process):
    """An index that another process has open, with the methods that tests need."""

    def __init__(self) -> None:
        super().__init__("read")

    def open(self, folder: Path) -> None:
        """Open an index and keep it open until the next one."""
        self.ask("open", str(folder))

    def search(self, query: str, k: int, **options: Any) -> list[Hit]:
        rows = self.ask("search", query, k, options)
        return [Hit(*row, passage=passage and Span(*passage)) for *row, passage in rows]

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        return [None if row is None else Document(*row) for row in self.ask("get", list(ids))]

    def count(self) -> int:
        return int(self.ask("count"))

    __len__ = count


class Forks(_Process):
    """Changes in processes of their own, which can be killed."""

    def __init__(self) -> None:
        super().__init__("fork")
        self._running: int | None = None
        self.end(self.begin("nothing", Path(), []))  # from now on it has imported everything

    def begin(self, how: str, folder: Path, what: list[Any]) -> int:
        """Begin a change after ending any change that a failed test left running."""
        if self._running is not None:
            self.end(self._running)
        self._running = int(self.ask(how, str(folder), what))
        assert self._running > 1  # a signal to 0 or -1 would end all tests
        return self._running

    def end(self, process: int) -> bool:
        """Kill a change; return True if it had not finished."""
        os.kill(process, signal.SIGKILL)  # its number is its own until it is waited for
        self._running = None
        status = int(self.ask())
        assert status in (0, signal.SIGKILL), status
        return status != 0


def _read() -> None:
    index = None
    for line in sys.stdin:
        what, *rest = json.loads(line)
        answer: Any = None
        if what == "open":
            index = SearchIndex.load(rest[0], FewWords())
        elif index is not None and what == "count":
            answer = index.count()
        elif index is not None and what == "get":
            answer = [one and (one.text, one.id, one.metadata) for one in index.get(rest[0])]
        elif index is not None:
            hits = index.search(rest[0], rest[1], **rest[2])
            answer = [(hit.id, hit.score, hit.text, hit.metadata, hit.passage) for hit in hits]
        _answer(answer)


def _fork() -> None:
    """Fork for each line, and wait for the child once the next line says so."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            try:
                _change(*json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _answer(process)
        sys.stdin.readline()
        _answer(os.waitpid(process, 0)[1])


def _change(how: str, folder: str, what: list[Any]) -> None:
    if how == "nothing":
        return
    index = SearchIndex.load(folder, FewWords())
    if how in ("add", "update"):
        getattr(index, how)(tuple(row) for row in what)
    elif how == "delete":
        index.delete(what)
    else:
        index.compact()


def _answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"read": _read, "fork": _fork}[sys.argv[1]]()
