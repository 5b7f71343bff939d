from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.geometry import (
    alignment,
    anisotropy,
    effective_rank,
    measure_geometry,
    spectrum,
    uniformity,
)
from sentemb.evaluation.sts import EncodedSets
from tests.evaluation.conftest import make_pairs

OF_ALL, BROKEN = (uniformity, anisotropy, spectrum), (math.nan, math.inf)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / math.sqrt(sum(float(value) ** 2 for value in vector))


def alignment_in_loops(first: np.ndarray, second: np.ndarray, alpha: float) -> float:
    total = 0.0
    for one, two in zip(first.astype(np.float64), second.astype(np.float64), strict=True):
        total += math.sqrt(sum((unit(one) - unit(two)) ** 2)) ** alpha
    return total / len(first)


def uniformity_in_loops(vectors: np.ndarray, t: float) -> float:
    units = [unit(vector) for vector in vectors.astype(np.float64)]
    kernels = [
        math.exp(-t * float(sum((units[i] - units[j]) ** 2)))
        for i in range(len(units))
        for j in range(i + 1, len(units))
    ]
    return math.log(math.fsum(kernels) / len(kernels))


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_alignment_equals_a_loop_in_float64(alpha: float) -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 40, 6)).astype(np.float32)
    expected = alignment_in_loops(first, second, alpha)
    assert alignment(first, second, alpha=alpha) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [2, 8, 9, 16, 21])
@pytest.mark.parametrize("t", [0.5, 2.0, 9.0])
def test_uniformity_equals_a_loop_in_float64_whatever_the_blocks(
    count: int, t: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.evaluation.geometry.BLOCK", 8)
    vectors = np.random.default_rng(count).normal(size=(count, 5)).astype(np.float32)
    assert uniformity(vectors, t=t) == pytest.approx(uniformity_in_loops(vectors, t), rel=1e-12)


def test_more_rows_than_a_block_equal_the_authors_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 2500, 12, generator=generator, dtype=torch.float64)
    x, y = (torch.nn.functional.normalize(side, dim=1) for side in (first, second))
    published = torch.pdist(x).pow(2).mul(-2).exp().mean().log()
    assert uniformity(first.numpy()) == pytest.approx(float(published), rel=1e-12)
    published = (x - y).norm(dim=1).pow(2).mean()
    assert alignment(first.numpy(), second.numpy()) == pytest.approx(float(published), rel=1e-12)


def test_far_apart_sentences_under_a_sharp_kernel_do_not_underflow() -> None:
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])  # exp(-4000) is no float64
    assert uniformity(opposite, t=1000.0) == pytest.approx(-4000.0)


def test_ends_of_the_scales() -> None:
    same = np.full((2000, 3), 0.1, dtype=np.float32)
    assert uniformity(same) == pytest.approx(0.0, abs=1e-12)
    assert alignment(same, 7 * same) == pytest.approx(0.0, abs=1e-12)  # length does not count
    assert alignment(same, -same) == pytest.approx(4.0)
    many = np.random.default_rng(0).normal(size=(1500, 256))
    assert uniformity(many) == pytest.approx(-4.0, abs=0.05)  # random directions stand at right angles


def test_zero_vectors_stay_zero() -> None:
    vectors = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert alignment(vectors[:1], vectors[1:]) == pytest.approx(1.0)
    assert uniformity(vectors) == pytest.approx(-2.0)


def anisotropy_in_loops(vectors: np.ndarray) -> float:
    units = [unit(vector) for vector in vectors.astype(np.float64)]
    cosines = [float(units[i] @ units[j]) for i in range(len(units)) for j in range(i + 1, len(units))]
    return math.fsum(cosines) / len(cosines)


def effective_rank_in_loops(vectors: np.ndarray) -> float:
    """From the singular values of the centred matrix itself."""
    units = np.array([unit(vector) for vector in vectors.astype(np.float64)])
    singular = np.linalg.svd(units - units.mean(axis=0), compute_uv=False)
    shares = [value / sum(singular) for value in singular if value > 1e-12]
    return math.exp(-sum(share * math.log(share) for share in shares))


@pytest.mark.parametrize("count", [2, 8, 9, 16, 21])
def test_anisotropy_and_rank_equal_a_loop_in_float64_whatever_the_blocks(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.evaluation.geometry.BLOCK", 8)
    vectors = (0.5 + np.random.default_rng(count).normal(size=(count, 12))).astype(np.float32)
    assert anisotropy(vectors) == pytest.approx(anisotropy_in_loops(vectors), rel=1e-12)
    assert effective_rank(spectrum(vectors)) == pytest.approx(effective_rank_in_loops(vectors), rel=1e-7)


def test_spectrum_equals_the_covariance_of_numpy_in_descending_order() -> None:
    vectors = np.random.default_rng(1).normal(size=(3000, 6)) * [3, 2, 1, 1, 0.1, 0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = np.linalg.eigvalsh(np.cov(units, rowvar=False, bias=True))[::-1]
    found = spectrum(vectors)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert found[-1] == 0.0  # exactly: rounding counts as no direction
    assert found.sum() == pytest.approx(1 - np.sum(units.mean(axis=0) ** 2), rel=1e-12)


def test_a_narrow_cone_keeps_its_spectrum() -> None:
    generator = np.random.default_rng(2)
    crowded = np.eye(1, 5) + 1e-6 * generator.normal(size=(4000, 5)) * [0, 1, 1, 1, 1]
    assert anisotropy(crowded) == pytest.approx(1.0, abs=1e-9)
    assert effective_rank(spectrum(crowded)) == pytest.approx(4.0, abs=0.02)


def test_ends_of_anisotropy_and_rank() -> None:
    same = np.full((2000, 3), 0.1, dtype=np.float32)
    assert anisotropy(3 * same) == pytest.approx(1.0)
    assert effective_rank(spectrum(same)) == 0.0
    opposite = np.array([[2.0, 0.0], [-1.0, 0.0]])
    assert anisotropy(opposite) == -1.0
    assert effective_rank(spectrum(opposite)) == 1.0
    many = np.random.default_rng(0).normal(size=(20000, 16))
    assert anisotropy(many) == pytest.approx(0.0, abs=1e-3)
    assert effective_rank(spectrum(many)) == pytest.approx(16.0, abs=0.01)
    with_zero = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    assert anisotropy(with_zero) == pytest.approx(1 / 3)  # no direction, no cosine


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda v: alignment(v, v[:2]), r"got \(3, 3\) and \(2, 3\)"),
        (lambda v: alignment(v[:0], v[:0]), "at least one positive pair"),
        *((lambda v, of=of: of(v[:1]), "at least two sentences, not 1") for of in OF_ALL),
        *((lambda v, of=of: of(v * np.nan), "NaN or infinity") for of in OF_ALL),
        *((lambda v, one=one: effective_rank(np.array([1.0, one])), "eigenvalue") for one in (-1.0, *BROKEN)),
        *((lambda v, one=one: uniformity(v, t=one), "t is") for one in (0.0, -1.0, *BROKEN)),
        *((lambda v, one=one: alignment(v, v, alpha=one), "alpha is") for one in (0.0, -1.0, *BROKEN)),
    ],
)
def test_bad_input_is_named(call: Callable[[np.ndarray], object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        call(np.eye(3))


def encoded(*sets: ScoredPairs) -> EncodedSets:
    """Sets over one shared table of random vectors."""
    generator = np.random.default_rng(4)
    rows = tuple(tuple(generator.integers(0, 30, size=(2, len(one.gold)))) for one in sets)
    return EncodedSets(sets, generator.normal(size=(30, 4)).astype(np.float32), rows)  # type: ignore[arg-type]


def test_positives_are_the_pairs_above_four_of_five() -> None:
    pairs = make_pairs(sizes=(300,))
    assert {0.0, 4.0, 5.0} <= set(pairs.gold)
    sets = encoded(pairs)
    first, second = (side[pairs.gold > 4] for side in sets.rows[0])
    found = measure_geometry(sets)
    assert found.alignment == pytest.approx(
        alignment_in_loops(sets.vectors[first], sets.vectors[second], 2.0), rel=1e-12
    )
    assert found.uniformity == pytest.approx(uniformity_in_loops(sets.vectors, 2.0), rel=1e-12)
    assert found.anisotropy == pytest.approx(anisotropy_in_loops(sets.vectors), rel=1e-10)
    assert found.effective_rank == pytest.approx(effective_rank_in_loops(sets.vectors), rel=1e-7)


def test_the_scale_of_the_scores_does_not_matter() -> None:
    pairs = make_pairs(sizes=(300,))
    small = ScoredPairs("mine", "dev", pairs.first, pairs.second, pairs.gold * 2 - 3)
    assert measure_geometry(encoded(small)) == measure_geometry(encoded(pairs))


def test_several_sets_count_as_one_each_on_its_own_scale() -> None:
    one, two = make_pairs(sizes=(300,), seed=1), make_pairs(sizes=(200,), seed=2)
    scaled = ScoredPairs("two", "dev", two.first, two.second, two.gold / 5)
    both, together = encoded(one, scaled), encoded(one, two)
    assert measure_geometry(both) == measure_geometry(together)
    first, second = (
        np.concatenate(
            [rows[side][pairs.gold > 4] for rows, pairs in zip(both.rows, (one, two), strict=True)]
        )
        for side in (0, 1)
    )
    expected = alignment_in_loops(both.vectors[first], both.vectors[second], 2.0)
    assert measure_geometry(both).alignment == pytest.approx(expected, rel=1e-12)
