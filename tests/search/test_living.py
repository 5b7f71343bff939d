from __future__ import annotations

import contextlib
import logging
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex, local
from sentemb.search.folder import changing
from tests.search.bag_of_words import BagOfWords
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


@pytest.mark.parametrize("kept", [1_000, 10])
def test_documents_that_searches_keep_are_those_of_the_index(
    index: SearchIndex, tmp_path: Path, words: BagOfWords, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_KEPT", kept)
    other = SearchIndex.load(tmp_path / "index", words)
    other.update([("a", "w50 w51", {"n": [1]})])
    for _ in range(3):
        (hit,) = index.search("w50", 1)
        assert (hit.id, hit.text, hit.metadata) == ("a", "w50 w51", {"n": [1]})
        hit.metadata["n"].append(2)
    other.update([("a", "w50", {"n": 2})])
    assert [(hit.id, hit.text, hit.metadata) for hit in index.search("w50", 1)] == [("a", "w50", {"n": 2})]
    other.delete(["a"])
    assert "a" not in ids(index, "w50")
    assert {hit.id for hit in index.search(["w1", "w2"], 1)[1]} == {2}
    number = len(index.store.documents)
    assert number == 13 if kept == 1_000 else number < 13  # two that are gone, and 11 others


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
    assert index.delete([0, "a"]) == 2 and index.search(["w1", "w2"]) == [[], []]
    index.compact()
    index.add(["w1"])
    assert ids(index, "w1") == [1]


def test_a_search_takes_the_vectors_of_its_queries(index: SearchIndex, words: BagOfWords) -> None:
    vectors = words.encode(["w3 w4", "w5"])
    words.encoded.clear()
    found = index.search(["", "w9"], 2, vectors=vectors)
    assert words.encoded == [] and found == index.search(["w3 w4", "w5"], 2)
    with pytest.raises(InputError, match="2 vectors for 1 queries; pass one vector for each query"):
        index.search("w1", vectors=vectors)
    with pytest.raises(InputError, match="pass one row of 32 numbers for each query"):
        index.search("w1", vectors=vectors[:, :5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.add([(3, "w99")]), r"document 0: the id 3 is already in the index; use update"),
        (lambda index: index.add([("a", "x"), ("a", "y")]), "'a' occurs twice: in document 0 and document 1"),
        (lambda index: index.update([("a", "x"), ("a", "y")]), "'a' occurs twice"),
        (lambda index: index.update([("a", "x"), (2.5, "y")]), "the id 2.5 is neither"),
        (lambda index: index.add([("a", "x", {"b": {1}})]), "metadata cannot be written as JSON"),
        (lambda index: index.add([("a", "x", {1: "x"})]), "metadata key 1 is not a string"),
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
    def state() -> set[str]:
        return {path.name for path in (tmp_path / "index").iterdir() if not path.name.endswith("-shm")}

    for _ in range(2):  # as it was saved, and changed
        before, answers = state(), index.search("w1", 50)
        with pytest.raises(InputError, match=message):
            change(index)
        assert index.search("w1", 50) == answers and state() == before
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


def test_a_damaged_database_is_named(index: SearchIndex, tmp_path: Path, words: BagOfWords) -> None:
    del index
    (database,) = (tmp_path / "index").glob("index-*.sqlite")
    good = database.read_bytes()
    for damaged in (good[: len(good) // 2], b"not a database" * 500, b""):
        for log in tmp_path.glob("index/*-*m"):
            log.unlink()
        database.write_bytes(damaged)
        with pytest.raises(InputError, match=database.name):
            SearchIndex.load(tmp_path / "index", words)
