"""Texts that are longer than the model's maximum length: split, truncated with a warning, or refused."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords, FewWords

LONG = "w1 w2 w3. w4 w5 w6. w7 w8 w9. w10 w11 w12."
DOCUMENTS = [("long", LONG, {"year": 1999}), ("short", "w7 w8 w9."), ("other", "w20 w21. w22 w23."), "w30"]


@pytest.fixture
def index(tmp_path: Path) -> SearchIndex:
    SearchIndex.build(DOCUMENTS, FewWords(3), overlap=0).save(tmp_path / "index")
    return SearchIndex.load(tmp_path / "index", FewWords(3))


def found(index: SearchIndex, query: str, k: int = 10, **options: object) -> list[tuple[object, str | None]]:
    hits = index.search(query, k, **options)  # type: ignore[call-overload]
    return [(hit.id, None if hit.passage is None else hit.text[slice(*hit.passage)]) for hit in hits]


def test_there_are_k_documents_where_k_exist() -> None:
    many = " ".join(f"w1 x{number} y{number}." for number in range(200))
    others = [f"v{number} v v" for number in range(30)]
    index = SearchIndex.build([many, *others], FewWords(3))
    assert index.manifest.vectors == 230
    for k in (1, 5, 31, 99):
        hits = index.search("w1 x7 y7.", k)
        assert len({hit.id for hit in hits}) == len(hits) == min(k, 31) and hits[0].id == 0
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)


def test_passages_overlap_by_the_share_of_the_build(tmp_path: Path) -> None:
    text = "a b. c d. e f. g h. i j. k l."
    spans = []
    for overlap in (0, 0.5):
        words = FewWords(4)
        index = SearchIndex.build(["z", text], words, overlap=overlap)
        index.add([("again", f"{text} m n.")])
        spans.append(words.encoded)
    assert "c d. e f." not in spans[0] and "c d. e f." in spans[1]


def test_texts_are_cut_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        index = SearchIndex.build(DOCUMENTS, FewWords(3), truncate="warn")
    assert "2 of 4 documents are longer than the 3 tokens of bag-of-words and were truncated" in caplog.text
    assert (index.manifest.chunked, index.manifest.truncated) == (0, 2)
    assert found(index, "w1 w2 w3.", 1) == [("long", "w1 w2 w3. ")]
    assert index.search("w1 w2 w3.", 1)[0].text == LONG
    assert index.add([("more", "w60 w61 w62 w63")]) == (1, 0, 0, 0, 1)
    assert index.manifest.truncated == 3
    index.compact()
    assert index.manifest.truncated == 3 and index.search("w60", 1)[0].passage is not None
    index.delete(["more", "long"])
    assert index.manifest.truncated == 1
    assert index.add([("more", "w60 w61 w62 w63.")], truncate="split") == (1, 0, 0, 1, 0)


def test_long_texts_are_refused(index: SearchIndex) -> None:
    with pytest.raises(
        InputError,
        match="document 0: the text has at least 12 tokens, but the maximum of bag-of-words is 3; split",
    ):
        SearchIndex.build([LONG], FewWords(3), truncate="error")
    with pytest.raises(InputError, match="document 1: the text has at least 4 tokens"):
        index.add(["w1", "w1 w2 w3 w4"], truncate="error")
    assert len(index) == 4


def test_ready_vectors_and_encoders_without_a_limit_never_split(index: SearchIndex) -> None:
    vectors = BagOfWords().encode([LONG])
    assert index.add([("ready", LONG + " x")], vectors) == (1, 0, 0, 0, 0)
    assert found(index, "", 1, vectors=vectors) == [("ready", None)]
    whole = SearchIndex.build([LONG], BagOfWords())
    assert (whole.manifest.chunked, whole.manifest.vectors) == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncate": "cut"}, "unknown truncate 'cut'; choose one of split, warn, error"),
        ({"overlap": 0.6}, "overlap is 0.6; choose a share from 0 to 0.5"),
        ({"overlap": "x"}, "overlap is 'x'"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SearchIndex.build(["a"], BagOfWords(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunks SET start = start + 1 WHERE start > 0",
        "UPDATE documents SET text = replace(text, 'w1', 'w2')",
        "DELETE FROM chunks WHERE start > 0",
        "UPDATE chunks SET id = id + (99 << 20)",
    ],
)
def test_a_changed_chunk_is_noticed(index: SearchIndex, tmp_path: Path, change: str) -> None:
    index.add(["w99"])
    (database,) = (tmp_path / "index").glob("index-*.sqlite")
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(change)
    with pytest.raises(InputError, match="is damaged"):
        SearchIndex.load(tmp_path / "index", FewWords(3))
