"""Mined negatives: near, but no nearer than the margin allows, and never a known positive."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.search import mine_negatives
from tests.search.bag_of_words import BagOfWords, Table

ANGLES = np.radians([0, 10, 12, 20, 30, 90, 5])  # of texts 0 to 6, on the unit circle
TABLE = Table(np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32))


def test_the_nearest_text_beyond_the_margin_is_the_negative() -> None:
    """The positive 10 degrees away allows cosines up to 0.95 * cos(10) = 0.936, an angle of 20.7 degrees."""
    triples, counts = mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"])
    assert triples == [("0", "1", "4")]
    assert (counts.pairs, counts.triples, counts.without, counts.known) == (1, 1, 0, 0)
    assert mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"], skip=1)[0] == [("0", "1", "5")]
    near = mine_negatives([("0", "1")], TABLE, corpus=["2", "3", "4", "5"], margin=0.0, count=3)[0]
    assert [negative for _, _, negative in near] == ["2", "3", "4"]


def test_positives_by_way_of_others_are_no_negatives() -> None:
    """1 and 3 are positives of 2, so 3 is none of 1's negatives; 5 is."""
    pairs = [("1", "2"), ("2", "3"), ("6", "5")]
    triples, counts = mine_negatives(pairs, TABLE, margin=0.0, count=1)
    assert ("1", "2", "5") in triples
    assert not [row for row in triples if row[0] == "1" and row[2] in ("2", "3")]
    assert counts.known == 1
    assert counts.without == sum(pair not in {row[:2] for row in triples} for pair in pairs)


def test_every_different_text_is_encoded_and_pairs_count_once() -> None:
    words = BagOfWords()
    pairs = [("a cat sat", "the cat sat"), ("a cat sat", "the cat sat"), ("birds fly", "two birds fly")]
    triples, counts = mine_negatives(pairs, words)
    assert counts.pairs == 2
    assert {row[:2] for row in triples} <= set(pairs)
    assert len(words.encoded) == 4


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([], {}, "there are no pairs"),
        ([("0", " ")], {}, "pair 1 has a blank text"),
        ([("0", "1")], {"count": 0}, "count is 0"),
        ([("0", "1")], {"margin": 1.0}, "margin is 1"),
        ([("0", "1")], {"skip": -1}, "skip is -1"),
    ],
)
def test_user_errors_are_named(pairs, options, message) -> None:
    with pytest.raises(InputError, match=message):
        mine_negatives(pairs, TABLE, **options)


def test_more_to_skip_than_there_are_candidates_is_refused() -> None:
    pairs = [("a cat", "the cat"), ("a dog", "the dog")]
    with pytest.raises(InputError, match="skip is 1,000,000,000, and there are 2 candidates"):
        mine_negatives(pairs, BagOfWords(), skip=10**9)
