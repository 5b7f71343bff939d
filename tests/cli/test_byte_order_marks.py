"""Every text file of a user's may begin with a byte order mark; one in UTF-16 is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.cli.index import lines_of
from sentemb.data.retrieval import load_retrieval
from sentemb.data.sources import read_rows
from sentemb.data.sts import load_scored_pairs
from sentemb.encoding.resolve import WordVectorEncoder
from sentemb.errors import InputError
from sentemb.report.build import read_marked
from sentemb.report.table import read_labels
from sentemb.training.values import read_toml

KEY = "0123456789abcdef"


def keys(path: Path) -> Any:
    return pytest.importorskip("sentemb.serving.settings").read_keys(path)


def judged(path: Path) -> Any:
    """A folder in BEIR's layout, of which one file is the case."""
    usual = {
        "corpus.jsonl": '{"_id": "a", "text": "a cat"}\n',
        "queries.jsonl": '{"_id": "1", "text": "cat"}\n',
        "qrels.tsv": "" if path.suffix == ".trec" else "query-id\tcorpus-id\tscore\n1\ta\t1\n",
    }
    for name, content in usual.items():
        if content and not (path.parent / name).exists():
            (path.parent / name).write_text(content)
    found = load_retrieval(path.parent)
    return found.query_ids, found.document_ids, list(found.queries), list(found.documents)


def rows(path: Path) -> Any:
    return [row.values for row in read_rows(path)]


CASES: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "txt": ("d.txt", "a cat\na dog\n", rows),
    "csv": ("d.csv", "text,year\na cat,1\n", rows),
    "jsonl": ("d.jsonl", '{"text": "a cat"}\n', rows),
    "page": ("d.md", "# Title\n\nText.\n", rows),
    "keys": ("keys", f"{KEY}\n", keys),
    "queries or ids": ("ids.txt", "a\nb\n", lambda path: lines_of(path, "id", "--ids")),
    "configuration": ("c.toml", "epochs = 2\n", read_toml),
    "labels": (
        "labels.toml",
        '[a]\nbase = "b"\nmethod = "m"\npooling = "cls"\n',
        lambda path: read_labels(path.parent),
    ),
    "report into": ("r.md", "<!-- report:sts -->\n<!-- /report:sts -->\n", lambda path: read_marked(path)[1]),
    "graded pairs": (
        "p.csv",
        "sentence1,sentence2,score\na,b,1\nc,d,2\n",
        lambda path: load_scored_pairs(path).gold.tolist(),
    ),
    "corpus": ("corpus.jsonl", '{"_id": "a", "text": "a cat"}\n', judged),
    "queries": ("queries.jsonl", '{"_id": "1", "text": "cat"}\n', judged),
    "qrels": ("qrels.tsv", "query-id\tcorpus-id\tscore\n1\ta\t1\n", judged),
    "qrels of TREC": ("qrels.trec", "1 0 a 1\n", judged),
    "word vectors": (
        "w.txt",
        "cat 1 2 3\ndog 2 3 4\n",
        lambda path: WordVectorEncoder(path).encode(["cat"]).tolist(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_byte_order_mark_is_no_text(case: str, tmp_path: Path) -> None:
    name, content, read = CASES[case]
    found = []
    for folder, encoding in (("plain", "utf-8"), ("marked", "utf-8-sig")):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_bytes(content.encode(encoding))
        found.append(read(path))
    assert found[0] and found[0] == found[1]


@pytest.mark.parametrize("case", CASES)
def test_utf_16_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    name, content, read = CASES[case]
    (tmp_path / name).write_bytes(content.encode("utf-16"))
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as refused:
        read(tmp_path / name)
    assert "\n" not in str(refused.value)
