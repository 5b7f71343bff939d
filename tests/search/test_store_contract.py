"""The contract of a store: the same calls on an index in a folder and on one in LanceDB."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex
from sentemb.search.where import Where
from tests import processes
from tests.search import test_where
from tests.search.bag_of_words import BagOfWords, FewWords
from tests.waiting import stay, wait_for

pytest.importorskip("lancedb", reason="lancedb is not installed")

from sentemb.search import lancedb, store
from sentemb.search import move as lance_move
from sentemb.search.lancedb import LanceStore
from sentemb.search.move import move

WORDS = "cat dog bird tree house river stone cloud apple bread".split()
Open = Callable[..., SearchIndex]


def documents(count: int = 40) -> list[Document]:
    generator = random.Random(0)
    return [
        Document(
            " ".join(generator.choices(WORDS, k=generator.randint(2, 6))),
            number if number % 2 else f"d'{number}",
            {"year": 2000 + number % 5, "lang": "en" if number % 3 else "de"},
        )
        for number in range(count)
    ]


@pytest.fixture(params=["folder", "lancedb"])
def open_index(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Make an index of documents on one of the engines."""

    numbers = itertools.count()

    def made(given: list[Any], encoder: Any = None, **options: Any) -> SearchIndex:
        encoder = encoder or BagOfWords()
        built = SearchIndex.build(given, encoder, allow_empty=True, language="en", **options)
        folder = tmp_path / "index"
        built.save(folder, overwrite=True)
        if request.param == "folder":
            return SearchIndex.open(folder, encoder)
        address = f"lancedb:{tmp_path / f'lance{next(numbers)}'}"
        move(str(folder), address)
        return SearchIndex.open(address, encoder)

    return made


def found(index: SearchIndex, query: str, **options: Any) -> list[str | int]:
    return [hit.id for hit in index.search(query, **options)]


def test_an_index_in_lancedb_is_calibrated_in_a_folder(open_index: Open) -> None:
    index = open_index(documents())
    queries, relevant = [one.text for one in documents()[:20]], [[one.id] for one in documents()[:20]]
    if index.store.address.startswith("lancedb:"):
        with pytest.raises(InputError, match="which the evidence of hits needs; copy the index to a folder"):
            index.calibrate(queries, relevant, alpha=0.1)
    else:
        assert index.calibrate(queries, relevant, alpha=0.1) == index.manifest.abstention


def test_dense_hits_are_those_of_every_vector(open_index: Open) -> None:
    given, encoder = documents(), BagOfWords()
    index = open_index(given, encoder)
    vectors = normalised(encoder.encode([one.text for one in given]))
    scores = vectors @ normalised(encoder.encode(["cat river stone"]))[0]
    hits = index.search("cat river stone", k=40)
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores.tolist(), reverse=True), abs=1e-5)
    by_id = {one.id: one for one in given}
    assert all((hit.text, dict(hit.metadata)) == (by_id[hit.id].text, by_id[hit.id].metadata) for hit in hits)
    assert hits[0].percentile is None or hits[0].percentile > 50
    assert index.search(["cat", "dog"], k=3)[1] == index.search("dog", k=3)
    assert found(index, "cat", k=100, min_score=hits[0].score + 1) == []


@pytest.mark.parametrize("mode", ["dense", "keyword", "hybrid"])
def test_a_filter_gives_k_hits_where_there_are_k(open_index: Open, mode: Any) -> None:
    index = open_index(documents())
    meeting = index.count({"lang": "de"})
    assert meeting == 14
    hits = index.search(
        "cat dog bird tree house river stone cloud apple bread", 14, mode=mode, where={"lang": "de"}
    )
    assert len(hits) == 14
    assert {hit.metadata["lang"] for hit in hits} == {"de"}
    one = {"$and": [{"year": {">=": 2003}}, {"lang": "en"}]}
    assert {hit.id for hit in index.search("cat", 40, where=one)} == {d.id for d in index.documents(one)}


def test_words_are_found_by_the_rules_of_the_language(open_index: Open) -> None:
    index = open_index([("a", "running dogs"), ("b", "a run"), ("c", "cats sleep"), (7, "d 'quoted' runs")])
    assert set(found(index, "dog runs", mode="keyword")) == {"a", "b", 7}
    assert found(index, "dog runs", mode="keyword")[0] == "a"
    assert found(index, "quoted", mode="keyword") == [7]
    assert found(index, "elephant", mode="keyword") == []
    snippet = index.search("dog", mode="keyword")[0].snippet
    assert snippet is not None and snippet.spans == ((8, 12),)


def test_changes_are_seen_at_once(open_index: Open) -> None:
    index = open_index(documents())
    other = SearchIndex.open(index.store.address, index.encoder)
    assert found(other, "zebra") != ["z"]
    assert index.add([("z", "zebra zebra", {"year": 1})]).added == 1
    assert found(other, "zebra", k=1) == found(other, "zebra", mode="keyword") == ["z"]
    assert other.count({"year": 1}) == 1 and len(other) == 41
    changed = index.update([("z", "yak"), ("y", "yak yak"), (1, " ")])
    assert (changed.added, changed.replaced, changed.skipped) == (1, 1, 1)
    assert found(other, "zebra", mode="keyword") == []
    assert set(found(other, "yak", mode="keyword")) == {"y", "z"}
    assert other.get(["z", 1, "y", "nothing"]) == [Document("yak", "z"), None, Document("yak yak", "y"), None]
    assert index.delete(["z", "1", 3, "nothing"]) == 2
    assert set(found(other, "yak", mode="keyword")) == {"y"} == set(found(other, "yak", k=1))
    assert [one.id for one in other.documents()][-1] == "y"
    texts = [str(one and one.text) for one in other.get(["y", 9, "y"])]
    expected = normalised(BagOfWords().encode(texts))
    assert np.allclose(other.vectors(["y", 9, "y"]), expected) and other.vectors([]).shape == (0, 32)
    index.compact()
    assert found(other, "yak", k=1) == ["y"] and len(other) == 39


def test_nothing_of_a_call_that_fails_is_kept(open_index: Open) -> None:
    index = open_index(documents())
    known = index.documents()[7].id
    for given, message in (
        ([("new", "text"), (known, "text")], "is already in the index"),
        ([("new", "text"), ("new", "again")], "occurs twice"),
        ([(None, 3)], "not a string"),
    ):
        with pytest.raises(InputError, match=message):
            index.add(given)
        assert index.get(["new"]) == [None] and len(index) == 40
    with pytest.raises(InputError, match="vectors"):
        index.add([("new", "text")], np.zeros((2, 32)))
    with pytest.raises(InputError, match="document 0 does not have an id, which an update"):
        index.update(["text"])
    with pytest.raises(InputError, match="does not contain a document with the id 'nothing'"):
        index.vectors(["nothing"])
    assert len(index) == 40


def test_damaged_metadata_in_a_table_are_one_line(tmp_path: Path) -> None:
    SearchIndex.build([("a", "cat")], BagOfWords(), language="en").save(tmp_path / "index")
    address = f"lancedb:{tmp_path / 'lance'}"
    move(str(tmp_path / "index"), address)
    for metadata in ("[" * 100_000, "no JSON", "5", '[["a"]]'):
        LanceStore(address)._table.update(values={"metadata": metadata})
        index = SearchIndex.open(address, BagOfWords())
        for name, *arguments in (("search", "cat"), ("get", ["a"]), ("documents",)):
            with pytest.raises(InputError, match="the metadata of document 'a' are damaged"):
                getattr(index, name)(*arguments)


def test_passages_are_found_by_the_best(open_index: Open) -> None:
    text = "cat dog bird tree zebra yak"
    index = open_index([("long", text), ("short", "cat yak")], FewWords(2), truncate="split")
    hit = index.search("zebra yak", k=1)[0]
    assert hit.id == "long" and hit.text == text
    assert hit.passage is not None and text[hit.passage.start : hit.passage.stop] == "zebra yak"
    assert len(index.search("cat", k=5)) == 2
    assert index.manifest.chunked == 1 and index.manifest.vectors > 2
    index.update([("long", "cat")])
    assert index.search("zebra yak", k=2)[1].passage is None and index.manifest.chunked == 0


def test_empty_indexes_answer(open_index: Open) -> None:
    index = open_index([])
    for mode in ("dense", "keyword", "hybrid"):
        assert index.search("cat", mode=mode) == []
    index.add(["cat", "dog"])
    assert [hit.text for hit in index.search("dog", 1)] == ["dog"]
    assert [hit.text for hit in index.search("dog", 1, mode="keyword")] == ["dog"]


def test_an_index_moves_there_and_back(tmp_path: Path) -> None:
    given = [*documents(), Document("a text", "twin", {"n": [1, {"x": None}]}), Document("a text", "twin 2")]
    encoder = BagOfWords()
    SearchIndex.build(given, encoder, language="en").save(tmp_path / "index")
    before = SearchIndex.load(tmp_path / "index", encoder)
    before.delete([5])
    before.add([("ü'\"", "new")])
    encoded = len(encoder.encoded)
    address = f"lancedb:{tmp_path / 'lance'}"
    move(str(tmp_path / "index"), address)
    move(address, str(tmp_path / "back"))
    assert len(encoder.encoded) == encoded
    back = SearchIndex.load(tmp_path / "back", encoder)
    assert before.documents() == SearchIndex.open(address, encoder).documents() == back.documents()
    ids = [one.id for one in before.documents()]
    assert np.array_equal(before.vectors(ids), back.vectors(ids))
    assert (back.manifest.language, back.manifest.truncate) == ("en", "split")
    for mode in ("dense", "keyword", "hybrid"):
        assert back.search("cat river", mode=mode) == before.search("cat river", mode=mode)
    for source, target in ((tmp_path / "index", address), (address, tmp_path / "back")):
        with pytest.raises(InputError, match="already contains an index"):
            move(str(source), str(target))


def test_a_move_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SearchIndex.build(documents(), BagOfWords()).save(tmp_path / "index")
    address = f"lancedb:{tmp_path / 'lance'}"

    def full(*_: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sentemb.search.move.table_of", full)
        with pytest.raises(OSError, match="No space left"):
            move(str(tmp_path / "index"), address)
    with pytest.raises(InputError, match="no index at lancedb"):
        LanceStore(address)
    move(str(tmp_path / "index"), address)
    with monkeypatch.context() as patch:
        patch.setattr("sentemb.search.local.LocalStore.copy_to", full)
        with pytest.raises(OSError, match="No space left"):
            move(address, str(tmp_path / "back"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "lance"]


def fill(source: str, address: str, committed: int, stop: int, written: Any) -> None:
    """Move an index and stop for good once so many documents are committed."""
    lance_move._COMMITTED = store.BATCH = committed

    def note(stage: str, done: int, total: int) -> None:
        written.value += stage == "index"
        if done >= stop:
            stay()

    move(source, address, progress=note)


def test_a_killed_move_goes_on_after_the_last_committed_batch(tmp_path: Path) -> None:
    given, encoder = documents(), BagOfWords()
    SearchIndex.build(given, encoder, language="en").save(tmp_path / "index")
    places = str(tmp_path / "index"), f"lancedb:{tmp_path / 'lance'}"

    def start(stop: int) -> tuple[Any, Any]:
        written = processes.number()
        log = tmp_path / "log"
        return processes.start(fill, *places, 10, stop, written, log=log), written

    process, written = start(20)
    wait_for(lambda: written.value == 1, alive=process.is_alive)
    process.kill()
    process.join()
    with pytest.raises(InputError, match="is not complete; run the command that was writing it again"):
        SearchIndex.open(places[1], encoder)
    process, written = start(99)
    process.join()
    assert process.exitcode == 0 and written.value == 1  # counted from -1: two of four batches
    index = SearchIndex.open(places[1], encoder)
    assert index.documents() == SearchIndex.load(places[0], encoder).documents()
    assert [hit.id for hit in index.search("cat river", 9)] == [
        hit.id for hit in SearchIndex.load(places[0], encoder).search("cat river", 9)
    ]


def test_what_another_source_has_left_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"lancedb:{tmp_path / 'lance'}"
    for name, given in (("first", documents()), ("second", documents(30))):
        SearchIndex.build(given, BagOfWords()).save(tmp_path / name)
    monkeypatch.setattr(lance_move, "_COMMITTED", 10)
    monkeypatch.setattr(store, "BATCH", 10)

    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move(str(tmp_path / "first"), address, progress=interrupt)
    move(str(tmp_path / "second"), address)
    assert len(SearchIndex.open(address, BagOfWords())) == 30


@pytest.mark.parametrize(("dimension", "kind"), [(32, "IvfRq"), (30, "IvfSq")])
def test_an_approximate_index_ranks_by_the_vectors_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dimension: int, kind: str
) -> None:
    monkeypatch.setattr(lancedb, "APPROXIMATE_FROM", 300)
    given = documents(400)
    encoder = BagOfWords(dimension)
    built = SearchIndex.build(given, encoder)
    built.save(tmp_path / "index")
    address = f"lancedb:{tmp_path / 'lance'}"
    move(str(tmp_path / "index"), address)
    index = SearchIndex.open(address, encoder)
    assert kind in index.info()["indexes"]
    exact, near = built.search("cat river stone", k=20), index.search("cat river stone", k=20)
    assert [hit.score for hit in near] == pytest.approx([hit.score for hit in exact], abs=1e-5)
    hits = index.search("cat", k=80, where={"lang": "de"})
    assert len(hits) == 80


def test_what_is_no_index_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no index at lancedb:"):
        SearchIndex.open(f"lancedb:{tmp_path}", BagOfWords())
    SearchIndex.build(documents(), BagOfWords()).save(tmp_path / "index")
    address = f"lancedb:{tmp_path / 'lance'}"
    move(str(tmp_path / "index"), address)
    with pytest.raises(InputError, match="was built with bag-of-words"):
        SearchIndex.open(address, BagOfWords(fingerprint="other"))
    with pytest.raises(InputError, match=r"are both (in LanceDB|folders)"):
        move(str(tmp_path / "index"), str(tmp_path / "other"))
    index = SearchIndex.open(address, BagOfWords())
    with pytest.raises(InputError, match="cannot be saved to another place; copy it with"):
        index.save(tmp_path / "saved")
    assert json.dumps(index.info())


def test_ids_are_counted_on(open_index: Open) -> None:
    """No id exhausts the automatic ids."""
    index = open_index(["one", "two"])
    index.add(["three", ("x", "four"), (17, "five")])
    index.add(["six", (2**62, "cat"), (2**63 - 1, "cat")])
    index.add(["seven"])
    assert [one.id for one in index.documents()] == [0, 1, 2, "x", 17, 18, 2**62, 2**63 - 1, 19]
    index = open_index([(2**62 - 1, "cat")])
    for text in ("bird", "tree", "house"):
        assert index.add([text, f"{text} cat"]).added == 2
    assert len(index) == 7


def test_fields_are_listed_and_weights_fitted(open_index: Open) -> None:
    index = open_index(documents())
    assert [(field.name, field.type, field.documents) for field in index.fields()] == [
        ("lang", "text", 40),
        ("year", "number", 40),
    ]
    weight = index.fit(["cat", "dog"], [[1], [3]])
    assert weight is not None and index.manifest.hybrid in (weight, None)
    other = SearchIndex.open(index.store.address, index.encoder)
    assert index.manifest.hybrid is None or other.manifest.hybrid == weight


def test_filters_compare_values_of_one_type(open_index: Open) -> None:
    """The conditions of the language, on values of every type, spelled numbers, paths and dates."""
    given = test_where.DOCUMENT
    index = open_index([("a", "cat", given), ("b", "dog"), ("c", "bird", {"year": "1999", "other": [1]})])
    (marks,) = test_where.test_conditions_compare_values_of_one_type.pytestmark
    for place, (conditions, met) in enumerate(marks.args[1]):
        for where, expected in ((conditions, met), ({"$not": conditions}, not met)):
            own = Where(where)
            rest = sum(own.matches(one) for one in (None, '{"year": "1999", "other": [1]}'))
            assert index.count(where) == expected + rest, where
            if place % 5 == 0:  # a search compares in the same way
                found = {hit.id for hit in index.search("cat", 3, where=where)}
                assert ("a" in found) is expected and len(found) == expected + rest, where
    assert index.explain_no_match({"year": {">": 3000}}) is None
    assert index.explain_no_match({"lang": 5}) == (
        "lang is a string in every document, but the condition needs a number"
    )
    assert index.explain_no_match({"nothing": 5}) == "none of the documents has the field 'nothing'"


def test_a_snapshot_does_not_change(open_index: Open) -> None:
    index = open_index(documents())
    with index.store.snapshot() as snapshot:
        SearchIndex.open(index.store.address, index.encoder).delete([1, 3])
        assert snapshot.manifest.documents == 40 and snapshot.numbers_of([1])
        assert len(list(snapshot.rows())) == 40
    assert len(index) == 38 and index.get([1]) == [None]
