from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from sentemb.data.sts import ScoredPairs
from sentemb.evaluation.scoring import UndefinedScoreError, checksum_of, pair_cosines, score_pairs


def test_cosines_equal_a_loop_in_float64() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(50, 8)).astype(np.float32)
    # More pairs than one block holds.
    first, second = generator.integers(0, 50, size=(2, 9000))
    found = pair_cosines(vectors, first, second)
    assert found.dtype == np.float64
    for index in range(0, 9000, 37):
        one, two = (vectors[rows[index]].astype(np.float64) for rows in (first, second))
        assert found[index] == pytest.approx(one @ two / np.sqrt(one @ one) / np.sqrt(two @ two), abs=1e-15)


def test_a_sentence_with_itself_is_exactly_one() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 384)).astype(np.float32)
    rows = np.arange(500)
    assert set(pair_cosines(vectors, rows, rows)) == {1.0}


def test_different_sentences_with_one_vector_tie_just_below_one() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 384)).astype(np.float32)
    first, second = np.arange(500), np.arange(500, 1000)
    found = pair_cosines(np.concatenate([vectors, vectors]), first, second)
    assert set(found) == {np.nextafter(1.0, 0.0)}
    assert set(pair_cosines(np.concatenate([vectors, -vectors]), first, second)) == {-1.0}


def test_zero_vectors_give_zero_as_in_torch() -> None:
    vectors = np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    first, second = np.array([0, 0, 1]), np.array([0, 1, 1])
    ours = pair_cosines(vectors, first, second)
    theirs = torch.nn.functional.cosine_similarity(
        torch.tensor(vectors[first]), torch.tensor(vectors[second])
    )
    assert ours.tolist() == [0.0, 0.0, 1.0]
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-7)


def test_protocols_equal_loops_over_subsets(three_parts: ScoredPairs) -> None:
    similarities = np.random.default_rng(3).random(60).round(1)
    scores = {(one.metric, one.protocol): one.value for one in score_pairs(three_parts, similarities)}
    for name, function in (("spearman", spearmanr), ("pearson", pearsonr)):
        total = weighted = 0.0
        for start, stop in ((0, 10), (10, 30), (30, 60)):
            part = function(similarities[start:stop], three_parts.gold[start:stop])[0]
            total += part
            weighted += part * (stop - start)
        whole = function(similarities, three_parts.gold)[0]
        assert scores[name, "all"] == pytest.approx(100 * whole, abs=1e-10)
        assert scores[name, "mean"] == pytest.approx(100 * total / 3, abs=1e-10)
        assert scores[name, "wmean"] == pytest.approx(100 * weighted / 60, abs=1e-10)
    assert len({*scores.values()}) == 6


def test_a_copy_without_its_subsets_has_all_alone(pairs: ScoredPairs) -> None:
    similarities = np.random.default_rng(3).random(30)
    undivided = dataclasses.replace(pairs, undivided=True)
    assert {one.protocol for one in score_pairs(pairs, similarities)} == {"all", "mean", "wmean"}
    assert {one.protocol for one in score_pairs(undivided, similarities)} == {"all"}


def test_the_error_names_set_and_subset(three_parts: ScoredPairs) -> None:
    with pytest.raises(UndefinedScoreError, match=r"^parts: all 60 similarities are equal"):
        score_pairs(three_parts, np.full(60, 0.9))
    similarities = np.random.default_rng(3).random(60)
    similarities[10:30] = 0.5
    with pytest.raises(UndefinedScoreError, match=r"^parts/part1: all 20 similarities are equal"):
        score_pairs(three_parts, similarities)


def test_checksum_depends_on_every_text_and_score(pairs: ScoredPairs) -> None:
    original = checksum_of(pairs)
    assert checksum_of(dataclasses.replace(pairs, source="elsewhere")) == original
    gold = pairs.gold.copy()
    gold[7] += 1e-12
    # Moving a letter over the border between two sentences is another pair.
    moved = dataclasses.replace(
        pairs,
        first=[pairs.first[0] + "x", *pairs.first[1:]],
        second=["x" + pairs.second[0], *pairs.second[1:]],
    )
    changed = [
        dataclasses.replace(pairs, gold=gold),
        moved,
        dataclasses.replace(pairs, first=pairs.second, second=pairs.first),
    ]
    assert len({original, *(checksum_of(one) for one in changed)}) == 4
