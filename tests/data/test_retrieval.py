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
QUERIES = [
    {"_id": "1", "text": "who sleeps"},
    {"_id": "2", "text": "who barks"},
    {"_id": "3", "text": "no one"},
]
HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of two documents and three queries, of which two are judged."""
    write(tmp_path, "corpus.jsonl", DOCUMENTS)
    write(tmp_path, "queries.jsonl", QUERIES)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text(HEADER + "2\tb\t2\n1\ta\t1\n1\tb\t-1\n")
    return tmp_path


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_folder_is_read_in_the_order_of_its_queries(folder: Path) -> None:
    found = load_retrieval(folder)
    assert found.name == folder.name and found.split == "test"
    assert found.documents == ["Cats They sleep.", "Dogs bark."]
    assert found.query_ids == ["1", "2"] and found.queries == ["who sleeps", "who barks"]
    assert found.judged.tolist() == [[0, 0, 1], [0, 1, -1], [1, 1, 2]]
    assert found.gold.tolist() == [[0, 1], [0, -1], [1, 2]]


@pytest.mark.parametrize("name", ["qrels/dev.txt", "qrels.trec"])
def test_judgements_of_trec_and_other_splits(folder: Path, name: str) -> None:
    (folder / "qrels/test.tsv").unlink()
    (folder / name).write_text("1 0 a 1\n\n2  0  b  3\n")
    found = load_retrieval(folder)
    assert found.split == ("dev" if "dev" in name else "test")
    assert found.judged.tolist() == [[0, 0, 1], [1, 1, 3]]


def test_a_judged_document_that_is_not_there_is_never_found(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "qrels/test.tsv").write_text(HEADER + "1\ta\t1\n1\tz\t1\n")
    with caplog.at_level(logging.WARNING):
        assert load_retrieval(folder).judged.tolist() == [[0, 0, 1], [0, -1, 1]]
    assert "1 of 2 documents of the qrels" in caplog.text


def judgements(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "qrels/test.tsv").write_text(text)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "json": (lambda folder: (folder / "corpus.jsonl").write_text('{"_id": "a"\n'), "corpus.jsonl, line 1"),
    "duplicate": (lambda f: write(f, "corpus.jsonl", DOCUMENTS * 2), "corpus.jsonl:3: the id 'a'"),
    "null": (lambda f: write(f, "corpus.jsonl", [{"_id": None, "text": ""}]), "corpus.jsonl:1"),
    "number": (lambda f: write(f, "queries.jsonl", [{"_id": 1, "text": "x"}]), "queries.jsonl:1"),
    "no text": (lambda f: write(f, "queries.jsonl", [{"_id": "1"}]), "queries.jsonl:1"),
    "query": (judgements(HEADER + "1\ta\t1\n9\ta\t1\n"), "test.tsv:3: the query '9'"),
    "grade": (judgements(HEADER + "1\ta\t0.5\n"), "test.tsv:2: the grade 0.5"),
    "word": (judgements(HEADER + "1\ta\tyes\n"), "test.tsv:2"),
    "twice": (judgements(HEADER + "1\ta\t1\n1\ta\t0\n"), "test.tsv:3"),
    "fields": (judgements("1 0 a 1\n1 0 a\n"), "test.tsv:2: expected four fields, but found 3"),
    "headless": (judgements("1\ta\t1\n"), "test.tsv, line 1"),
    "empty": (judgements(HEADER), "test.tsv does not contain qrels"),
    "no corpus": (lambda folder: (folder / "corpus.jsonl").unlink(), "no such file"),
    "no qrels": (lambda folder: (folder / "qrels/test.tsv").unlink(), "does not contain qrels"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_set_is_refused_with_the_line(folder: Path, case: str) -> None:
    damage, message = BROKEN[case]
    damage(folder)
    with pytest.raises(InputError, match=message):
        load_retrieval(folder)


@pytest.mark.parametrize("judged", ["1\ta\t0\n2\tb\t-1\n", "1\tnowhere\t1\n2\tb\t0\n"])
def test_judgements_by_which_nothing_can_be_found_are_refused(folder: Path, judged: str) -> None:
    (folder / "qrels/test.tsv").write_text(HEADER + judged)
    with pytest.raises(InputError, match="split test: none of the queries has a relevant document"):
        load_retrieval(folder)


@pytest.mark.parametrize("judged", ["b\t0", "gone\t1"])
def test_queries_that_score_zero_whatever_is_found_are_counted(
    judged: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "qrels/test.tsv").write_text(HEADER + f"1\ta\t1\n2\t{judged}\n")
    with caplog.at_level(logging.WARNING):
        assert len(load_retrieval(folder)) == 2
    assert "1 of 2 queries do not have a relevant document in the corpus" in caplog.text


def test_documents_tell_their_language(folder: Path) -> None:
    assert load_retrieval(folder).language == "en"
    german = "Der Hund und die Katze sind auf dem Dach, das nicht mit der Leiter zu erreichen ist."
    write(folder, "corpus.jsonl", [{"_id": name, "text": f"{german} {name}"} for name in "ab"])
    assert load_retrieval(folder).language == "de"


def test_an_unknown_name_or_split_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no such data set or folder"):
        load_retrieval("scifacts")
    with pytest.raises(InputError, match="does not have a split 'dev'"):
        load_retrieval(folder, split="dev")
    with pytest.raises(InputError, match="does not contain queries with qrels"):
        load_retrieval("stsb")


@pytest.mark.parametrize("name", [entry.name for entry in entries("retrieval") if entry.rows])
def test_the_catalogues_sets_are_complete(name: str, shared_data: Path) -> None:
    entry = next(one for one in entries("retrieval") if one.name == name)
    assert [one.problem for one in count(entry, shared_data)] == [None] * len(entry.splits)
