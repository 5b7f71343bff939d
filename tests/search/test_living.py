from __future__ import annotations

import contextlib
import logging
import resource
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex
from sentemb.search.folder import changing
from sentemb.search.store import Changed
from tests.search.bag_of_words import BagOfWords, Table, clustered
from tests.waiting import wait_for


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def index(tmp_path: Path, words: BagOfWords) -> SearchIndex:
    SearchIndex.build([f"w{n}" for n in range(20)], words).save(tmp_path / "index")
    return SearchIndex.load(tmp_path / "index", words)


def ids(index: SearchIndex, query: str, k: int = 10) -> list[str | int]:
    return [hit.id for hit in index.search(query, k)]


def test_changes_answer_at_once_and_everywhere(index: SearchIndex, tmp_path: Path) -> None:
    reader = SearchIndex.load(tmp_path / "index", BagOfWords())
    assert index.add([("new", "w50", {"year": 1999}), ("blank", " ")]) == Changed(1, 0, 1)
    for opened in (index, reader, SearchIndex.load(tmp_path / "index", BagOfWords())):
        assert ids(opened, "w50", 1) == ["new"] and opened.count() == 21
    assert index.get(["new", "no", 3]) == [Document("w50", "new", {"year": 1999}), None, Document("w3", 3)]
    assert index.update([("new", "w51"), (3, "w3 w4"), ("x", "w52")]) == Changed(1, 2, 0)
    assert [hit.text for hit in reader.search("w3", 1)] == ["w3 w4"]
    assert index.delete(["new", 3, "3", 99]) == 2
    assert "new" not in ids(reader, "w51", 100) and len(reader) == 20
    index.compact()
    assert len(list((tmp_path / "index").glob("vectors-*"))) == 1
    assert ids(reader, "w52", 1) == ["x"] and reader.manifest == index.manifest
    index.delete(["x"])
    assert "x" not in ids(reader, "w52", 100)


def test_equal_texts_of_a_call_are_encoded_once(index: SearchIndex, words: BagOfWords) -> None:
    words.encoded.clear()
    index.add([("a", "w1"), ("b", "w60"), ("c", "w60")])
    assert words.encoded == ["w1", "w60"]
    index.delete(["b", 1])
    index.add([("d", "w60")])
    assert ids(index, "w60", 2) == ["c", "d"] and ids(index, "w1", 1) == ["a"]


def test_documents_without_ids_get_new_integers(index: SearchIndex) -> None:
    index.delete([19])
    index.add(["w30", "w31"])
    assert index.get([20, 21])[1] == Document("w31", 21)
    index.delete([20, 21])
    index.compact()
    index.add(["w32"])
    assert ids(index, "w32", 1) == [22]


def test_a_full_disk_after_the_commit_is_no_failure(
    index: SearchIndex, tmp_path: Path, words: BagOfWords, caplog: pytest.LogCaptureFixture
) -> None:
    index.add([("long", "w1 " * 100_000)])
    (living,) = (tmp_path / "index").glob("index-*.sqlite")
    with file_size_limit(living.stat().st_size):  # the log has room, the database cannot grow
        assert index.add([("a", "w50"), ("b", "w51 " * 3_000)]).added == 2
    assert "the next change retries this" in caplog.text
    assert SearchIndex.load(tmp_path / "index", words).get(["a"]) == [Document("w50", "a")]
    index.add([("c", "w52")])
    assert len(index) == 24 and not living.with_name(f"{living.name}-wal").stat().st_size


def test_a_full_disk_before_the_commit_changes_nothing(
    index: SearchIndex, tmp_path: Path, words: BagOfWords
) -> None:
    index.add([("a", "w50")])
    (living,) = (tmp_path / "index").glob("index-*.sqlite")
    with file_size_limit(living.stat().st_size), pytest.raises(OSError, match=living.name):
        index.add([("b", "w50 " * 100_000)])
    assert len(index) == 21 and index.add([("b", "w51")]).added == 1


def test_compaction_on_a_full_disk_names_it(index: SearchIndex, tmp_path: Path, words: BagOfWords) -> None:
    index.add([(f"a{n}", f"w{n} " * 50) for n in range(400)])
    for size in (20_000, 60_000, 100_000, 140_000):
        with file_size_limit(size), contextlib.suppress(OSError):  # any other error fails the test
            index.compact()
    assert len(SearchIndex.load(tmp_path / "index", words)) == 420


def test_an_index_in_memory_lives_too(tmp_path: Path, words: BagOfWords) -> None:
    index = SearchIndex.build(["w1", "w2"], words)
    index.add([("a", "w3")])
    index.delete([0])
    assert ids(index, "w1", 9) == ids(SearchIndex.build([(1, "w2"), ("a", "w3")], words), "w1", 9)
    index.save(tmp_path / "index")
    index.delete(["a"])
    saved = SearchIndex.load(tmp_path / "index", words)
    assert len(index) == 1 and len(saved) == 2 and ids(saved, "w3", 1) == ["a"]
    index.compact()
    assert len(index) == 1


def test_an_index_may_begin_empty(tmp_path: Path, words: BagOfWords) -> None:
    empty = SearchIndex.build([], words, allow_empty=True)
    assert empty.search("w1") == [] and empty.documents() == [] and len(empty) == 0
    empty.save(tmp_path / "index")
    for change in (lambda index: index.delete([1]), lambda index: index.update([])):
        index = SearchIndex.load(tmp_path / "index", words)
        change(index)
        index.compact()
        change(index)
        assert SearchIndex.load(tmp_path / "index", words).documents() == []
    index.add(["w1", ("a", "w2")])
    index.compact()
    assert ids(index, "w2") == ["a", 0]


def test_documents_and_their_vectors_are_listed(index: SearchIndex, words: BagOfWords) -> None:
    assert index.documents() == [Document(f"w{n}", n, {}, f"document {n}") for n in range(20)]
    index.update([(3, "w3", {"year": 1}), ("a", "w40", {"year": 2}), ("b", "w1", {"year": 3})])
    assert [document.id for document in index.documents()][-4:] == [19, 3, "a", "b"]
    assert [document.text for document in index.documents({"year": {">": 1}})] == ["w40", "w1"]
    assert index.count({"year": {">": 1}}) == 2 and index.count({"$not": {"year": 1}}) == 21
    expected = words.encode(["w40", "w1", "w1"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert index.vectors(["a", 1, "b"]) == pytest.approx(expected, abs=1e-6)
    assert index.vectors([]).shape == (0, 32)
    index.delete([1])
    with pytest.raises(InputError, match="does not contain a document with the id 1"):
        index.vectors([1])


def test_a_search_takes_the_vectors_of_its_queries(index: SearchIndex, words: BagOfWords) -> None:
    vectors = words.encode(["w3 w4", "w5"])
    words.encoded.clear()
    found = index.search(["", "w9"], 2, vectors=vectors)
    assert words.encoded == [] and found == index.search(["w3 w4", "w5"], 2)
    with pytest.raises(InputError, match="2 vectors for 1 queries; pass one vector for each query"):
        index.search("w1", vectors=vectors)
    with pytest.raises(InputError, match="pass one row of 32 numbers for each query"):
        index.search("w1", vectors=vectors[:, :5])


def test_everything_can_be_deleted(index: SearchIndex) -> None:
    assert index.delete(range(20)) == 20
    assert index.search(["w1", "w2"]) == [[], []] and index.count() == 0
    index.compact()
    assert index.search("w1") == []
    index.add(["w1"])
    assert ids(index, "w1") == [20]


def test_ready_vectors_are_taken_as_they_are(index: SearchIndex, words: BagOfWords) -> None:
    vectors = words.encode(["w70", "w71", "w72"])
    words.encoded.clear()
    index.add([("a", "one"), ("b", " "), ("c", "two")], vectors)
    assert words.encoded == []
    assert index.search("w72", 1)[0].text == "two"
    index.compact()
    assert index.search("w72", 1)[0].score == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.add([(3, "w99")]), r"document 0: the id 3 is already in the index; use update"),
        (lambda index: index.add([("a", "x"), ("a", "y")]), "'a' occurs twice: in document 0 and document 1"),
        (lambda index: index.update([("a", "x"), ("a", "y")]), "'a' occurs twice"),
        (lambda index: index.update([("a", "x"), (2.5, "y")]), "the id 2.5 is neither"),
        (lambda index: index.add([("a", "x", {"b": {1}})]), "metadata cannot be written as JSON"),
        (lambda index: index.add("text"), "collection of texts"),
        (lambda index: index.delete("text"), "ids must be a collection"),
        (lambda index: index.delete([None]), "id 0: the id None is neither"),
        (lambda index: index.get([2**64]), "more than 64 bits"),
        (lambda index: index.add(["x"], np.ones((1, 7))), r"shape \(1, 7\), but the index has 32 dimensions"),
        (lambda index: index.add(["x"], np.ones(32)), r"shape \(32,\)"),
        (lambda index: index.add(["x"], "vectors"), "vectors must be a 2-D array of numbers"),
        (lambda index: index.add(["x"], np.full((1, 32), np.nan)), "vector 0 contains NaN"),
        (lambda index: index.add(["x"], np.ones((2, 32))), "2 vectors for 1 documents"),
        (lambda index: index.add(["x", "y"], np.ones((1, 32))), "1 vectors for 2 or more documents"),
        (lambda index: index.add(["x"], np.ones((1, 32), np.complex64)), "real numbers, not complex"),
        (lambda index: index.search(["x"], vectors=np.ones((1, 32), np.complex64)), "not complex"),
    ],
)
def test_what_is_refused_changes_nothing(
    index: SearchIndex, tmp_path: Path, change: Callable[[SearchIndex], object], message: str
) -> None:
    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()}

    for _ in range(2):  # as it was saved, and changed
        before, answers = state(), index.search("w1", 50)
        with pytest.raises(InputError, match=message):
            change(index)
        assert index.search("w1", 50) == answers
        now = state()
        assert {name for name in now if not name.endswith("-shm")} == {
            name for name in before if not name.endswith("-shm")
        }
        index.delete([7])


def test_a_failing_encoder_changes_nothing(index: SearchIndex, words: BagOfWords) -> None:
    words.encode = lambda texts, **_: np.full((len(texts), 32), np.inf)  # type: ignore[method-assign]
    with pytest.raises(InputError, match="NaN or infinity"):
        index.update([(1, "other")])
    assert index.get([1])[0] == Document("w1", 1)


def test_another_index_in_the_folder_is_not_changed(index: SearchIndex, tmp_path: Path) -> None:
    expected = index.search("w1")
    SearchIndex.build(["w1"], BagOfWords()).save(tmp_path / "index", overwrite=True)
    for change in (lambda: index.add(["w3"]), lambda: index.delete([0])):
        with pytest.raises(InputError, match="was replaced by another index after it was opened"):
            change()
    assert index.search("w1") == expected
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(InputError, match="is not an index"):
        index.add(["w3"])
    assert index.search("w1") == expected and not (tmp_path / "index").exists()


def test_another_writer_waits(index: SearchIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    thread = threading.Thread(target=index.add, args=(["w30"],))
    with changing(tmp_path / "index"), caplog.at_level(logging.DEBUG, "filelock"):
        thread.start()
        wait_for(lambda: "not acquired on" in caplog.text, alive=thread.is_alive)
        assert index.count() == 20
    thread.join()
    assert index.count() == 21


def test_threads_that_write_and_search_see_whole_states(index: SearchIndex, tmp_path: Path) -> None:
    """Every call replaces two documents at once; a search that found one of each would be torn."""
    reader = SearchIndex.load(tmp_path / "index", BagOfWords())
    failures: list[object] = []
    stop = threading.Event()
    index.update([("a", "w80 v0"), ("b", "w80 v0")])

    def search() -> None:
        while not stop.is_set():
            hits = [hit.text for hit in reader.search("w80", 2)]
            if len(set(hits)) != 1 or len(hits) != 2:
                failures.append(hits)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 25):
        index.update([("a", f"w80 v{number}"), ("b", f"w80 v{number}")])
        if number % 8 == 0:
            index.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivfpq"])
def test_always_k_results_and_nearly_the_best(tmp_path: Path, kind: str) -> None:
    """Three tenths are deleted at random, and everything near one query."""
    vectors = clustered(7000, 32)
    unit = normalised(vectors)
    options: dict[str, Any] = {"kind": kind, "memory_budget": 10**7}
    index = SearchIndex.build(map(str, range(6500)), Table(vectors), **options)
    index.add(map(str, range(6500, 6900)))
    queries = [str(number) for number in range(6900, 7000)]
    near = [hit.id for hit in index.search(queries[0], 3000)]
    others = np.random.default_rng(1).choice(6900, 2000, replace=False).tolist()
    assert index.delete([*near, *others]) == len({*near, *others})
    left = np.setdiff1d(np.arange(6900), [*near, *others])
    exact = left[np.argsort(-(unit[6900:] @ unit[left].T), axis=1)[:, :10]].tolist()

    def recall(index: SearchIndex) -> float:
        found = index.search(queries, 10)
        assert all(len(hits) == 10 for hits in found)
        pairs = zip(found, exact, strict=True)
        return float(np.mean([len({int(hit.text) for hit in hits} & {*true}) / 10 for hits, true in pairs]))

    assert recall(index) >= {"flat": 1, "hnsw": 0.95, "ivfpq": 0.9}[kind]
    assert len(index.search(queries[0], 10**6)) == len(left) == len(index)
    index.save(tmp_path / "index")
    size = sum(path.stat().st_size for path in (tmp_path / "index").iterdir())
    index.compact()
    fresh = SearchIndex.build(map(str, left.tolist()), Table(vectors), **options)
    assert recall(index) >= recall(fresh) - 0.03  # vectors that were rounded are not rounded again
    assert index.manifest.kind == kind
    index.save(tmp_path / "index", overwrite=True)
    assert sum(path.stat().st_size for path in (tmp_path / "index").iterdir()) < 0.7 * size


def test_a_damaged_database_is_named(index: SearchIndex, tmp_path: Path, words: BagOfWords) -> None:
    index.add([("a", "w30 w31 w32")])
    del index
    (living,) = (tmp_path / "index").glob("index-*.sqlite")
    good = living.read_bytes()
    for damaged in (
        good.replace(b"w30 w31 w32", b"w30 w31 w33"),
        good[: len(good) // 2],
        b"not a database" * 500,
        b"",
    ):
        for log in tmp_path.glob("index/*-*m"):
            log.unlink()
        living.unlink()
        living.write_bytes(damaged)
        with pytest.raises(InputError, match=living.name):
            SearchIndex.load(tmp_path / "index", words)
    living.unlink()
    with pytest.raises(InputError, match=f"{living.name} is missing"):
        SearchIndex.load(tmp_path / "index", words)


def test_a_missing_vector_is_found(index: SearchIndex, tmp_path: Path, words: BagOfWords) -> None:
    index.add([("a", "w30")])
    (database,) = (tmp_path / "index").glob("index-*.sqlite")
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("DELETE FROM vectors")
    connection.close()
    with pytest.raises(InputError, match="does not have exactly one vector per text"):
        SearchIndex.load(tmp_path / "index", words)
