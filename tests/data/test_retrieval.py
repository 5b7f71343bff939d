"""Sets of queries with qrels: the catalogue's, users' folders, and what is wrong with broken ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.data.catalogue import entries
from sentemb.data.fetch import count
from sentemb.data.retrieval import load_retrieval
from sentemb.errors import InputError

DOCUMENTS = [{"_id": "a", "title": "Cats", "text": "They sleep."}, {"_id": "b", "text": "Dogs bark."}]
QUERIES = [{"_id": n, "text": text} for n, text in enumerate(("who sleeps", "who barks", "no one"), start=1)]
HEADER = "query-id\tcorpus-id\tscore\n"


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of two documents and three queries, of which two have qrels."""
    write(tmp_path, "corpus.jsonl", DOCUMENTS)
    write(tmp_path, "queries.jsonl", [{**query, "_id": str(query["_id"])} for query in QUERIES])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text(HEADER + "2\tb\t2\n1\ta\t1\n1\tb\t-1\n")
    return tmp_path


def test_a_folder_is_read_in_the_order_of_its_queries(folder: Path) -> None:
    found = load_retrieval(folder)
    assert (found.name, found.split, found.language) == (folder.name, "test", "en")
    assert found.documents == ["Cats They sleep.", "Dogs bark."]
    assert found.query_ids == ["1", "2"] and found.queries == ["who sleeps", "who barks"]
    assert found.judged.tolist() == [[0, 0, 1], [0, 1, -1], [1, 1, 2]]
    assert found.gold.tolist() == [[0, 1], [0, -1], [1, 2]]
    german = "Der Hund und die Katze sind auf dem Dach, das nicht mit der Leiter zu erreichen ist."
    write(folder, "corpus.jsonl", [{"_id": name, "text": f"{german} {name}"} for name in "ab"])
    assert load_retrieval(folder).language == "de"


@pytest.mark.parametrize("name", ["qrels/dev.txt", "qrels.trec"])
def test_qrels_of_trec_and_other_splits(folder: Path, name: str) -> None:
    (folder / "qrels/test.tsv").unlink()
    (folder / name).write_text("1 0 a 1\n\n2  0  b  3\n")
    found = load_retrieval(folder)
    assert found.split == ("dev" if "dev" in name else "test")
    assert found.judged.tolist() == [[0, 0, 1], [1, 1, 3]]


@pytest.mark.parametrize(
    ("qrels", "judged", "warning"),
    [
        ("1\ta\t1\n1\tz\t1\n", [[0, 0, 1], [0, -1, 1]], "1 of 2 documents of the qrels"),
        ("1\ta\t1\n2\tb\t0\n", [[0, 0, 1], [1, 1, 0]], "1 of 2 queries do not have a relevant document"),
        ("1\ta\t1\n2\tgone\t1\n", [[0, 0, 1], [1, -1, 1]], "1 of 2 queries do not have a relevant document"),
    ],
)
def test_what_is_never_found_is_counted(
    qrels: str, judged: list[list[int]], warning: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "qrels/test.tsv").write_text(HEADER + qrels)
    with caplog.at_level(logging.WARNING):
        assert load_retrieval(folder).judged.tolist() == judged
    assert warning in caplog.text


def qrels(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "qrels/test.tsv").write_text(text)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "corpus.jsonl").write_text('{"_id": "a"\n'), "corpus.jsonl, line 1"),
        (lambda folder: write(folder, "corpus.jsonl", DOCUMENTS * 2), "corpus.jsonl:3: the id 'a'"),
        (lambda folder: write(folder, "corpus.jsonl", [{"_id": None, "text": ""}]), "corpus.jsonl:1"),
        (lambda folder: write(folder, "queries.jsonl", QUERIES), "queries.jsonl:1"),  # ids that are numbers
        (lambda folder: write(folder, "queries.jsonl", [{"_id": "1"}]), "queries.jsonl:1"),
        (qrels(HEADER + "1\ta\t1\n9\ta\t1\n"), "test.tsv:3: the query '9'"),
        (qrels(HEADER + "1\ta\t0.5\n"), "test.tsv:2: the grade 0.5"),
        (qrels(HEADER + "1\ta\tyes\n"), "test.tsv:2"),
        (qrels(HEADER + "1\ta\t1\n1\ta\t0\n"), "test.tsv:3"),
        (qrels("1 0 a 1\n1 0 a\n"), "test.tsv:2: expected four fields, but found 3"),
        (qrels("1\ta\t1\n"), "test.tsv:1: expected four fields, but found 3; write QUERY 0 DOC"),
        (qrels(HEADER), "test.tsv does not contain qrels"),
        (qrels(HEADER + "1\ta\t0\n2\tb\t-1\n"), "split test: none of the queries has a relevant document"),
        (qrels(HEADER + "1\tno\t1\n2\tb\t0\n"), "split test: none of the queries has a relevant document"),
        (lambda folder: (folder / "corpus.jsonl").unlink(), "no such file"),
        (lambda folder: (folder / "qrels/test.tsv").unlink(), "does not contain qrels"),
    ],
)
def test_a_broken_set_is_refused_with_the_line(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(InputError, match=message):
        load_retrieval(folder)


def test_an_unknown_name_or_split_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no such data set or folder"):
        load_retrieval("scifacts")
    with pytest.raises(InputError, match="does not have a split 'dev'"):
        load_retrieval(folder, split="dev")
    with pytest.raises(InputError, match="does not contain queries with qrels"):
        load_retrieval("stsb")


@pytest.mark.parametrize("entry", [e for e in entries("retrieval") if e.rows], ids=lambda entry: entry.name)
def test_the_catalogues_sets_are_complete(entry, shared_data: Path) -> None:
    assert [one.problem for one in count(entry, shared_data)] == [None] * len(entry.splits)
