"""Intervals of geometry: the values without a group, and how often an interval covers what it should."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.geometry import Geometry, measure_geometry
from sentemb.evaluation.geometry_intervals import GROUPS, _deal, estimate_geometry, independent_parts
from sentemb.evaluation.sts import EncodedSets


def encoded(vectors: np.ndarray, first: np.ndarray, second: np.ndarray) -> EncodedSets:
    """Pairs of rows, every second one of the highest score."""
    gold = np.where(np.arange(len(first)) % 2 == 0, 5.0, 0.0)
    pairs = ScoredPairs("drawn", "dev", [str(row) for row in first], [str(row) for row in second], gold)
    return EncodedSets((pairs,), vectors.astype(np.float32), ((first, second),))


def draw(
    generator: np.random.Generator, pairs: int, dim: int = 8, *, centre: float = 1.0, slope: float = 0.3
) -> EncodedSets:
    """Pairs of alike vectors around `centre` on the first axis, each axis narrower than the one before."""
    shared, own = (generator.normal(size=(pairs, count, dim)) for count in (1, 2))
    vectors = (0.8 * shared + 0.6 * own) * np.arange(1, dim + 1.0) ** -slope
    vectors[..., 0] += centre
    rows = np.arange(2 * pairs).reshape(pairs, 2)
    return encoded(vectors.reshape(-1, dim), rows[:, 0], rows[:, 1])


def without(sets: EncodedSets, left_out: np.ndarray) -> EncodedSets:
    """The sets without some sentences and their pairs."""
    places = np.cumsum(~left_out) - 1
    kept = [index for index, row in enumerate(sets.rows[0][0]) if not left_out[row]]
    (pairs,), ((first, second),) = sets.pairs, sets.rows
    fewer = replace(
        pairs,
        first=[pairs.first[index] for index in kept],
        second=[pairs.second[index] for index in kept],
        gold=pairs.gold[kept],
        subsets=(),
    )
    return EncodedSets((fewer,), sets.vectors[~left_out], ((places[first[kept]], places[second[kept]]),))


def test_the_interval_is_that_of_the_figures_measured_again_without_each_group() -> None:
    generator = np.random.default_rng(0)
    sets = draw(generator, 90)
    first, second = sets.rows[0]
    second[::7] = second[3]  # one large part
    sets = encoded(sets.vectors, first, second)
    groups = _deal(independent_parts(sets))
    again = np.array([measure_geometry(without(sets, groups == group)) for group in range(GROUPS)])
    found = estimate_geometry(sets, confidence=0.9)
    assert found.geometry == measure_geometry(sets)
    errors = np.sqrt((GROUPS - 1) / GROUPS * np.sum((again - again.mean(axis=0)) ** 2, axis=0))
    reach = stats.t.ppf(0.95, GROUPS - 1) * errors
    np.testing.assert_allclose(np.subtract(found.high, found.geometry), reach, rtol=1e-6)
    np.testing.assert_allclose(np.subtract(found.geometry, found.low), reach, rtol=1e-6)
    assert (found.positives, found.sentences, found.confidence) == (45, 180, 0.9)


def test_sentences_that_pairs_connect_are_in_one_group() -> None:
    first, second = np.array([0, 2, 4, 6, 1, 8]), np.array([1, 3, 5, 7, 2, 8])
    parts = independent_parts(encoded(np.eye(10), first, second))
    assert len(set(parts[[0, 1, 2, 3]])) == 1
    assert len(set(parts)) == 5  # with two and two, one pair of one sentence, and a sentence of no pair
    sizes = np.bincount(_deal(np.repeat(np.arange(500), 3)))
    assert len(sizes) == GROUPS
    assert sizes.min() == sizes.max() == 75


def test_few_pairs_have_as_many_groups() -> None:
    found = estimate_geometry(draw(np.random.default_rng(1), 6))
    assert found.independent == 6
    assert all(
        low < value < high for low, value, high in zip(found.low, found.geometry, found.high, strict=True)
    )


def test_intervals_stay_where_figures_can_be() -> None:
    generator = np.random.default_rng(2)
    found = estimate_geometry(draw(generator, 5, 2, centre=30.0))
    assert found.low.alignment == 0.0
    assert found.high.uniformity <= 0.0
    assert found.high.anisotropy <= 1.0


def test_bad_input_is_named() -> None:
    sets = draw(np.random.default_rng(0), 30)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="confidence is"):
            estimate_geometry(sets, confidence=confidence)
    with pytest.raises(InputError, match="at least 3 pairs that do not share a sentence, but there are 2"):
        estimate_geometry(draw(np.random.default_rng(0), 2))
    with pytest.raises(InputError, match="at least 3 positive pairs"):
        estimate_geometry(draw(np.random.default_rng(0), 4))


def coverage(draws: int, pairs: int, dim: int, **options: float) -> Geometry:
    """Share of draws whose interval covers what as many sentences give on average."""
    generator = np.random.default_rng(3)
    found = [estimate_geometry(draw(generator, pairs, dim, **options)) for _ in range(draws)]
    expected = np.mean([one.geometry for one in found], axis=0)
    covered = [(np.array(one.low) <= expected) & (expected <= np.array(one.high)) for one in found]
    return Geometry(*np.mean(covered, axis=0).tolist())


def test_intervals_cover_what_they_should() -> None:
    for share in coverage(100, 40, 5):
        assert 0.89 <= share <= 1.0  # 0.95, less two and a half standard errors of 100 draws


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "dim", "options", "least"),
    [
        (150, 10, {}, 0.92),
        (150, 10, {"centre": 0.0}, 0.92),  # no direction is preferred: anisotropy is degenerate
        (200, 100, {}, 0.92),  # half as many directions as independent pairs
        (200, 150, {"slope": 0.7}, 0.92),
        (40, 10, {}, 0.88),  # two pairs in a group: intervals are a little short
    ],
)
def test_intervals_cover_what_they_should_in_many_places(
    pairs: int, dim: int, options: dict[str, float], least: float
) -> None:
    found = coverage(400, pairs, dim, **options)
    for share in found:
        assert least <= share <= 0.99
