"""Texts in a file are the texts of a list."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from sentemb.data import stored_texts
from sentemb.data.stored_texts import (
    StoredTexts,
    descending,
    first_places,
    places_of,
    spill_pairs_to_disk,
    spill_to_disk,
    store,
)

TEXTS = ["b", "", "ü\n", "a", "b", "\ud800x", "\U0001f600", "\ue000", "a", "ab"]


def in_a_file(texts: list[str]) -> StoredTexts:
    return store(([text] for text in texts), 1)[0]


def test_a_file_reads_as_a_list() -> None:
    stored = in_a_file(TEXTS)
    assert len(stored) == len(TEXTS) and [*stored] == TEXTS
    assert [stored[place] for place in range(-3, 3)] == TEXTS[-3:] + TEXTS[:3]
    for part in (slice(2, 5), slice(None, None, 3), slice(8, 99), slice(5, 2), slice(None, None, -1)):
        assert stored[part] == TEXTS[part]
    with pytest.raises(IndexError):
        stored[10]


def test_many_texts_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spill_to_disk(iter(TEXTS)) == TEXTS
    monkeypatch.setattr(stored_texts, "_IN_MEMORY", 5)
    ids, texts = spill_pairs_to_disk(zip(map(str, range(10)), TEXTS, strict=True))
    assert isinstance(ids, StoredTexts) and isinstance(texts, StoredTexts)
    assert ([*ids], [*texts]) == ([str(number) for number in range(10)], TEXTS)


@pytest.mark.parametrize("of", [list, in_a_file])
def test_order_and_equal_texts(of: Callable[[list[str]], Sequence[str]]) -> None:
    texts = of(TEXTS)
    unique = [*dict.fromkeys(TEXTS)]
    random.Random(0).shuffle(unique)
    assert [unique[place] for place in descending(of(unique))] == sorted(unique, reverse=True)
    assert first_places(texts).tolist() == [TEXTS.index(text) for text in TEXTS]
    assert first_places(of([])).tolist() == []
    assert places_of({"a", "z", "ab"}, ["ab", "b", "a"]) == {"ab": 0, "a": 2}


def test_texts_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_texts, "hash", lambda text: 7, raising=False)
    assert np.array_equal(first_places(TEXTS), [TEXTS.index(text) for text in TEXTS])
