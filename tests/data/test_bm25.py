"""Scores from lists on disk are those of lists in memory, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sentemb.data import bm25
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms, stored_bm25_scores

WORDS = "cat cats dog running runs tree Baum Bäume 東京都 é the of a".split()


@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_scores_are_those_of_lists_in_memory(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "_SIZES_BATCH", 7)
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(0, 9))) for _ in range(50)]
    queries = [*(" ".join(draw.choices([*WORDS, "unknown"], k=n)) for n in range(6)), "unknown"]
    counts, terms = count_terms(texts, language)
    wanted, _ = count_query_terms(queries, language, terms)
    expected = np.concatenate([*bm25_scores(bm25_weights(counts), wanted, 3)])
    found = np.stack([scores.copy() for scores in stored_bm25_scores(iter(texts), queries, language)])
    assert np.array_equal(found, expected)
    assert found.any()


def test_no_text_has_no_score() -> None:
    assert [scores.tolist() for scores in stored_bm25_scores([], ["a", "b"], "en")] == [[], []]
