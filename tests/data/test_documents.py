"""Documents of any source, with titles and ids, without blank and repeated ones; texts in files."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sentemb.data import stored_texts
from sentemb.data.documents import Document, read_documents, read_unique_documents, split_documents
from sentemb.data.stored_texts import (
    StoredTexts,
    descending,
    first_places,
    places_of,
    spill_pairs_to_disk,
    spill_to_disk,
    store,
)

Write = Callable[[str, str], Path]


def test_titles_come_from_their_column(write_file: Write) -> None:
    path = write_file("docs.csv", "title,text,name\ncp,Copies files.,a\n,No title.,b\n")
    first, second = read_unique_documents(path)
    assert first == Document("Copies files.", title="cp", location=f"{path}:2")
    assert (first.whole, second.whole) == ("cp Copies files.", "No title.")
    named = read_unique_documents(path, text_column="title", title_column="name")
    assert [document.whole for document in named] == ["a cp", "b"]


def test_blank_and_repeated_documents_are_counted(
    write_file: Write, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(json.dumps({"text": text}) + "\n" for text in ("a", " ", "b", "a ", "a"))
    with caplog.at_level(logging.WARNING):
        found = read_unique_documents(write_file("docs.jsonl", rows))
    assert [document.text for document in found] == ["a", "b"]
    assert "2 of 5 documents are duplicates" in caplog.text
    assert "1 of 5 documents are blank" in caplog.text


@pytest.mark.parametrize("neighbor", ["queries.jsonl", "qrels/test.jsonl", "more.jsonl"])
def test_of_a_folder_in_the_layout_of_beir_the_corpus_is_read(write_file: Write, neighbor: str) -> None:
    for name, text in (("corpus.jsonl", "a document"), (neighbor, "another")):
        path = write_file(f"set/{name}", json.dumps({"_id": text, "text": text}) + "\n")
    folder = path.parent if path.parent.name == "set" else path.parents[1]
    expected = ["a document", "another"] if neighbor == "more.jsonl" else ["a document"]
    assert [document.whole for document in read_unique_documents(folder)] == expected
    assert [document.id for document in read_documents(folder)] == expected


def test_held_out_documents_are_a_share_of_all() -> None:
    documents = [Document(f"text {number}", str(number)) for number in range(50)]
    rest, out = split_documents(documents, share=0.2, seed=3)
    assert (len(rest), len(out)) == (40, 10)
    assert sorted(rest + out, key=documents.index) == documents
    assert split_documents(documents, share=0.2, seed=3)[1] == out
    assert split_documents(documents, share=0.2, seed=4)[1] != out


TEXTS = ["b", "", "ü\n", "a", "b", "\ud800x", "\U0001f600", "\ue000", "a", "ab"]


def in_a_file(texts: list[str]) -> StoredTexts:
    return store([text] for text in texts)[0]


def test_a_file_reads_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = in_a_file(TEXTS)
    assert len(stored) == len(TEXTS) and [*stored] == TEXTS
    assert [stored[place] for place in range(-3, 3)] == TEXTS[-3:] + TEXTS[:3]
    for part in (slice(2, 5), slice(None, None, 3), slice(8, 99), slice(5, 2), slice(None, None, -1)):
        assert stored[part] == TEXTS[part]
    with pytest.raises(IndexError):
        stored[10]
    assert spill_to_disk(iter(TEXTS)) == TEXTS
    monkeypatch.setattr(stored_texts, "_IN_MEMORY", 5)
    ids, texts = spill_pairs_to_disk(zip(map(str, range(10)), TEXTS, strict=True))
    assert isinstance(ids, StoredTexts) and isinstance(texts, StoredTexts)
    assert ([*ids], [*texts]) == ([str(number) for number in range(10)], TEXTS)


@pytest.mark.parametrize("of", [list, in_a_file])
def test_order_and_equal_texts(
    of: Callable[[list[str]], Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = [*dict.fromkeys(TEXTS)]
    random.Random(0).shuffle(unique)
    assert [unique[place] for place in descending(of(unique))] == sorted(unique, reverse=True)
    assert first_places([]).tolist() == []
    assert places_of({"a", "z", "ab"}, ["ab", "b", "a"]) == {"ab": 0, "a": 2}
    assert first_places(of(TEXTS)).tolist() == [TEXTS.index(text) for text in TEXTS]
    monkeypatch.setattr(stored_texts, "hash", lambda text: 7, raising=False)
    assert np.array_equal(first_places(of(TEXTS)), [TEXTS.index(text) for text in TEXTS])
