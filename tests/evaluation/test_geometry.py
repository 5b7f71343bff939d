"""Geometry against loops in float64, and intervals against figures that are measured again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.geometry import (
    GROUPS,
    Geometry,
    _deal,
    alignment,
    anisotropy,
    effective_rank,
    estimate_geometry,
    independent_parts,
    measure_geometry,
    spectrum,
    uniformity,
)
from sentemb.evaluation.sts import EncodedSets
from tests.evaluation.conftest import make_pairs

OF_ALL = (uniformity, anisotropy, spectrum)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / math.sqrt(sum(float(value) ** 2 for value in vector))


def units_of(vectors: np.ndarray) -> list[np.ndarray]:
    return [unit(vector) for vector in vectors.astype(np.float64)]


def alignment_in_loops(first: np.ndarray, second: np.ndarray, alpha: float) -> float:
    pairs = zip(units_of(first), units_of(second), strict=True)
    return sum(math.sqrt(sum((one - two) ** 2)) ** alpha for one, two in pairs) / len(first)


def mean_over_pairs(vectors: np.ndarray, of: Callable[[np.ndarray, np.ndarray], float]) -> float:
    units = units_of(vectors)
    values = [of(units[i], units[j]) for i in range(len(units)) for j in range(i + 1, len(units))]
    return math.fsum(values) / len(values)


def uniformity_in_loops(vectors: np.ndarray, t: float) -> float:
    return math.log(mean_over_pairs(vectors, lambda one, two: math.exp(-t * float(sum((one - two) ** 2)))))


def anisotropy_in_loops(vectors: np.ndarray) -> float:
    return mean_over_pairs(vectors, lambda one, two: float(one @ two))


def effective_rank_in_loops(vectors: np.ndarray) -> float:
    """From the singular values of the centred matrix itself."""
    units = np.array(units_of(vectors))
    singular = np.linalg.svd(units - units.mean(axis=0), compute_uv=False)
    shares = [value / sum(singular) for value in singular if value > 1e-12]
    return math.exp(-sum(share * math.log(share) for share in shares))


def test_alignment_equals_a_loop_in_float64() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 40, 6)).astype(np.float32)
    expected = alignment_in_loops(first, second, 2.0)
    assert alignment(first, second) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [2, 8, 9, 16, 21])
def test_figures_equal_a_loop_in_float64_whatever_the_blocks(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.evaluation.geometry.BLOCK", 8)
    vectors = (0.5 + np.random.default_rng(count).normal(size=(count, 12))).astype(np.float32)
    assert uniformity(vectors) == pytest.approx(uniformity_in_loops(vectors, 2.0), rel=1e-12)
    assert anisotropy(vectors) == pytest.approx(anisotropy_in_loops(vectors), rel=1e-12)
    assert effective_rank(spectrum(vectors)) == pytest.approx(effective_rank_in_loops(vectors), rel=1e-7)


def test_ends_of_the_scales() -> None:
    same = np.full((2000, 3), 0.1, dtype=np.float32)
    assert uniformity(same) == pytest.approx(0.0, abs=1e-12)
    assert alignment(same, 7 * same) == pytest.approx(0.0, abs=1e-12)  # length does not count
    assert alignment(same, -same) == pytest.approx(4.0)
    assert anisotropy(3 * same) == pytest.approx(1.0) and effective_rank(spectrum(same)) == 0.0
    opposite = np.array([[1.0, 0.0], [-2.0, 0.0]])
    assert uniformity(opposite) == pytest.approx(-8.0)
    assert anisotropy(opposite) == -1.0 and effective_rank(spectrum(opposite)) == 1.0
    many = np.random.default_rng(0).normal(size=(1500, 256))
    assert uniformity(many) == pytest.approx(-4.0, abs=0.05)  # random directions are orthogonal
    many = np.random.default_rng(0).normal(size=(20000, 16))
    assert anisotropy(many) == pytest.approx(0.0, abs=1e-3)
    assert effective_rank(spectrum(many)) == pytest.approx(16.0, abs=0.01)
    zero = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])  # stays zero
    assert alignment(zero[:1], zero[1:2]) == pytest.approx(1.0)
    assert uniformity(zero[:2]) == pytest.approx(-2.0)
    assert anisotropy(zero) == pytest.approx(1 / 3)


def test_spectrum_equals_the_covariance_of_numpy_in_descending_order() -> None:
    vectors = np.random.default_rng(1).normal(size=(3000, 6)) * [3, 2, 1, 1, 0.1, 0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = np.linalg.eigvalsh(np.cov(units, rowvar=False, bias=True))[::-1]
    found = spectrum(vectors)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert found[-1] == 0.0  # exactly: rounding is not a direction
    assert found.sum() == pytest.approx(1 - np.sum(units.mean(axis=0) ** 2), rel=1e-12)
    crowded = np.eye(1, 5) + 1e-6 * np.random.default_rng(2).normal(size=(4000, 5)) * [0, 1, 1, 1, 1]
    assert anisotropy(crowded) == pytest.approx(1.0, abs=1e-9)  # a narrow cone keeps its spectrum
    assert effective_rank(spectrum(crowded)) == pytest.approx(4.0, abs=0.02)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda v: alignment(v, v[:2]), r"got \(3, 3\) and \(2, 3\)"),
        (lambda v: alignment(v[:0], v[:0]), "at least one positive pair"),
        *((lambda v, of=of: of(v[:1]), "at least two sentences, not 1") for of in OF_ALL),
        *((lambda v, of=of: of(v * np.nan), "NaN or infinity") for of in OF_ALL),
    ],
)
def test_bad_input_is_named(call: Callable[[np.ndarray], object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        call(np.eye(3))


def share_vectors(*sets: ScoredPairs) -> EncodedSets:
    """Sets over one shared table of random vectors."""
    generator = np.random.default_rng(4)
    rows = tuple(tuple(generator.integers(0, 30, size=(2, len(one.gold)))) for one in sets)
    return EncodedSets(sets, generator.normal(size=(30, 4)).astype(np.float32), rows)  # type: ignore[arg-type]


def test_positives_are_the_upper_fifth_of_each_sets_scale() -> None:
    one, two = make_pairs(sizes=(300,), seed=1), make_pairs(sizes=(200,), seed=2)
    assert {0.0, 4.0, 5.0} <= {*one.gold}
    sets = share_vectors(one)
    first, second = (side[one.gold > 4] for side in sets.rows[0])
    found = measure_geometry(sets)
    expected = alignment_in_loops(sets.vectors[first], sets.vectors[second], 2.0)
    assert found.alignment == pytest.approx(expected, rel=1e-12)
    assert found.uniformity == pytest.approx(uniformity_in_loops(sets.vectors, 2.0), rel=1e-12)
    assert found.anisotropy == pytest.approx(anisotropy_in_loops(sets.vectors), rel=1e-10)
    assert found.effective_rank == pytest.approx(effective_rank_in_loops(sets.vectors), rel=1e-7)
    scaled = replace(two, gold=two.gold / 5 - 3)
    assert measure_geometry(share_vectors(one, scaled)) == measure_geometry(share_vectors(one, two))


def encode_pairs(vectors: np.ndarray, first: np.ndarray, second: np.ndarray) -> EncodedSets:
    """Pairs of rows, every second one of the highest score."""
    gold = np.where(np.arange(len(first)) % 2 == 0, 5.0, 0.0)
    pairs = ScoredPairs("drawn", "dev", [*map(str, first)], [*map(str, second)], gold)
    return EncodedSets((pairs,), vectors.astype(np.float32), ((first, second),))


def draw(
    generator: np.random.Generator, pairs: int, dim: int = 8, *, centre: float = 1.0, slope: float = 0.3
) -> EncodedSets:
    """Pairs of alike vectors around `centre` on the first axis, each axis narrower than the one before."""
    shared, own = (generator.normal(size=(pairs, count, dim)) for count in (1, 2))
    vectors = (0.8 * shared + 0.6 * own) * np.arange(1, dim + 1.0) ** -slope
    vectors[..., 0] += centre
    rows = np.arange(2 * pairs).reshape(pairs, 2)
    return encode_pairs(vectors.reshape(-1, dim), rows[:, 0], rows[:, 1])


def without(sets: EncodedSets, removed: np.ndarray) -> EncodedSets:
    """The sets without some sentences and their pairs."""
    places = np.cumsum(~removed) - 1
    kept = np.flatnonzero(~removed[sets.rows[0][0]])
    (pairs,), ((first, second),) = sets.pairs, sets.rows
    some = ([side[row] for row in kept] for side in (pairs.first, pairs.second))
    fewer = ScoredPairs("drawn", "dev", *some, pairs.gold[kept])
    return EncodedSets((fewer,), sets.vectors[~removed], ((places[first[kept]], places[second[kept]]),))


def test_the_interval_is_that_of_the_figures_measured_again_without_each_group() -> None:
    sets = draw(np.random.default_rng(0), 90)
    first, second = sets.rows[0]
    second[::7] = second[3]  # one large part
    sets = encode_pairs(sets.vectors, first, second)
    groups = _deal(independent_parts(sets))
    again = np.array([measure_geometry(without(sets, groups == group)) for group in range(GROUPS)])
    found = estimate_geometry(sets, confidence=0.9)
    assert found.geometry == measure_geometry(sets)
    errors = np.sqrt((GROUPS - 1) / GROUPS * np.sum((again - again.mean(axis=0)) ** 2, axis=0))
    reach = stats.t.ppf(0.95, GROUPS - 1) * errors
    np.testing.assert_allclose(np.subtract(found.high, found.geometry), reach, rtol=1e-6)
    np.testing.assert_allclose(np.subtract(found.geometry, found.low), reach, rtol=1e-6)
    assert (found.positives, found.sentences) == (45, 180)


def test_sentences_that_pairs_connect_are_in_one_group() -> None:
    first, second = np.array([0, 2, 4, 6, 1, 8]), np.array([1, 3, 5, 7, 2, 8])
    parts = independent_parts(encode_pairs(np.eye(10), first, second))
    assert len(set(parts[[0, 1, 2, 3]])) == 1
    assert len(set(parts)) == 5  # with two and two, one pair of one sentence, and a sentence of no pair
    sizes = np.bincount(_deal(np.repeat(np.arange(500), 3)))
    assert len(sizes) == GROUPS and sizes.min() == sizes.max() == 75


def test_intervals_of_few_pairs_stay_where_figures_can_be() -> None:
    found = estimate_geometry(draw(np.random.default_rng(1), 6))
    assert found.independent == 6
    for low, value, high in zip(found.low, found.geometry, found.high, strict=True):
        assert low < value < high
    found = estimate_geometry(draw(np.random.default_rng(2), 5, 2, centre=30.0))
    assert found.low.alignment == 0.0
    assert found.high.uniformity <= 0.0 and found.high.anisotropy <= 1.0
    for pairs, confidence, problem in (
        (30, 0.0, "confidence is"),
        (30, math.nan, "confidence is"),
        (2, 0.95, "at least 3 pairs that do not share a sentence, but there are 2"),
        (4, 0.95, "at least 3 positive pairs"),
    ):
        with pytest.raises(InputError, match=problem):
            estimate_geometry(draw(np.random.default_rng(0), pairs), confidence=confidence)


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
