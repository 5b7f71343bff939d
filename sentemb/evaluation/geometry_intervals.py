"""How far the figures of geometry would move with other sentences of the same kind.

Sentences are not drawn one by one: the two of a pair are alike, and some stand in several pairs. What is
independent are the parts of the graph that pairs make of sentences. They are dealt to twenty groups, each
figure is measured again without each group, and the spread of the twenty values gives the error of the whole
(the delete-a-group jackknife), with Student's t for its nineteen degrees of freedom.

A bootstrap would fail here: sentences drawn twice are at distance 0 from each other and span fewer
directions, so that its effective ranks lie far below the one they should scatter around. So do those of few
sentences below those of many: an interval is of what as many sentences give, and figures of different
numbers of sentences do not compare.

References:
    Wolter: Introduction to Variance Estimation, chapter 4. Springer, 2007.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student

from sentemb._threads import one_blas_thread
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import TextEncoder
from sentemb.errors import InputError
from sentemb.evaluation.environment import environment
from sentemb.evaluation.geometry import (
    Double,
    Geometry,
    effective_rank,
    log_gaussian_sum,
    measure_geometry,
    positive_pairs,
    spectra_of,
    spectrum,
    unit_rows,
)
from sentemb.evaluation.schema import Record, Score
from sentemb.evaluation.scoring import dataset_of
from sentemb.evaluation.sts import EncodedSets, Rows, encode_sets

GROUPS = 20
_T = 2.0  # of the kernel, as in measure_geometry
_LEAST = 3  # parts, so that two sentences are left without one of them
_LOWEST = Geometry(alignment=0.0, uniformity=-4 * _T, anisotropy=-1.0, effective_rank=0.0)
_HIGHEST = Geometry(alignment=4.0, uniformity=0.0, anisotropy=1.0, effective_rank=math.inf)


@dataclass(frozen=True)
class GeometryEstimate:
    """Figures of geometry and their intervals.

    Attributes:
        geometry: The figures, as `measure_geometry` gives them.
        low: Lower ends of the intervals.
        high: Upper ends.
        confidence: Of each interval alone.
        positives: Pairs that alignment is measured on.
        sentences: Unique sentences.
        independent: Parts that no pair connects, which the intervals take for independent draws.
    """

    geometry: Geometry
    low: Geometry
    high: Geometry
    confidence: float
    positives: int
    sentences: int
    independent: int


@one_blas_thread()
def estimate_geometry(encoded: EncodedSets, *, confidence: float = 0.95) -> GeometryEstimate:
    """Measure alignment, uniformity, anisotropy and effective rank with an interval each.

    Beside `measure_geometry` this costs another pass over all pairs of sentences and twenty
    eigendecompositions.

    Args:
        encoded: Sets, whose scores differ, and the vectors of their sentences.
        confidence: Of each interval.

    Returns:
        Figures and intervals.

    Raises:
        InputError: Too few sentences or positives, a vector that is not finite, or no confidence.

    Example:
        >>> estimate = estimate_geometry(encoded)  # doctest: +SKIP
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence!r}", "use a number between 0 and 1, such as 0.95")
    parts = independent_parts(encoded)
    groups = _deal(parts)
    first, second = positive_pairs(encoded)
    unit = unit_rows(encoded.vectors)  # (sentences, dim)
    # Of a set of pairs a group is a slice, once the sentences are in the order of their groups.
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(groups.max() + 2))
    slices = [unit[order[start:stop]] for start, stop in pairwise(bounds)]
    figures = (
        _alignments(unit[first] - unit[second], groups[first], len(slices)),
        _uniformities(slices),
        _anisotropies(slices),
        _effective_ranks(slices),
    )
    geometry = measure_geometry(encoded)
    reach = _reach(np.stack(figures), confidence)
    return GeometryEstimate(
        geometry,
        Geometry(*(max(*ends) for ends in zip(np.subtract(geometry, reach).tolist(), _LOWEST, strict=True))),
        Geometry(*(min(*ends) for ends in zip(np.add(geometry, reach).tolist(), _HIGHEST, strict=True))),
        confidence,
        positives=len(first),
        sentences=len(unit),
        independent=int(parts.max()) + 1,
    )


def evaluate_geometry(encoder: TextEncoder, pairs: ScoredPairs, *, confidence: float = 0.95) -> Record:
    """Measure how the sentences of scored pairs lie under an encoder, with intervals."""
    began = time.perf_counter()
    encoded = encode_sets(encoder, [pairs])
    estimate = estimate_geometry(encoded, confidence=confidence)
    return Record(
        suite="geometry",
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        protocol=f"{pairs.name}-{pairs.split}",
        datasets=(dataset_of(pairs),),
        scores=tuple(
            Score(dataset=pairs.name, metric=metric, value=value, low=low, high=high)
            for metric, value, low, high in zip(
                Geometry._fields, estimate.geometry, estimate.low, estimate.high, strict=True
            )
        ),
        encoder=encoder.describe(),
        environment=environment({"geometry": time.perf_counter() - began}),
        details={
            "confidence": confidence,
            "positives": estimate.positives,
            "sentences": estimate.sentences,
            "independent": estimate.independent,
            "spectrum": spectrum(encoded.vectors).tolist(),
        },
    )


def independent_parts(encoded: EncodedSets) -> Rows:
    """The part of each sentence: sentences are in one part where pairs lead from one to the other."""
    first, second = (np.concatenate([rows[side] for rows in encoded.rows]) for side in (0, 1))
    size = len(encoded.vectors)
    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(size, size))
    _, parts = connected_components(graph, directed=False)
    return np.asarray(parts, dtype=np.intp)


def _deal(parts: Rows) -> Rows:
    """Deal parts to groups of like sizes: the largest first, those of one size at random."""
    sizes = np.bincount(parts)
    if len(sizes) < _LEAST:
        raise InputError(
            f"intervals need at least {_LEAST} pairs that do not share a sentence, but there are "
            f"{len(sizes)}",
            "provide more pairs",
        )
    shuffled = np.random.default_rng(0).permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    group = np.empty(len(sizes), dtype=np.intp)
    group[order] = np.arange(len(sizes)) % GROUPS
    dealt: Rows = group[parts]
    return dealt


def _reach(without: Double, confidence: float) -> Double:
    """Half the width of each figure's interval, from its values (figures, groups) without each group."""
    count = without.shape[1]
    deviations = without - without.mean(axis=1, keepdims=True)
    errors = np.sqrt((count - 1) / count * np.sum(deviations**2, axis=1))
    reach: Double = student.ppf((1 + confidence) / 2, count - 1) * errors
    return reach


def _alignments(differences: Double, groups: Rows, count: int) -> Double:
    squares = np.einsum("pd,pd->p", differences, differences)  # (positives,)
    pairs = np.bincount(groups, minlength=count)
    if np.count_nonzero(pairs) < _LEAST:
        raise InputError(
            f"the interval of alignment needs at least {_LEAST} positive pairs that do not share a sentence",
            "provide more pairs that have the same meaning",
        )
    sums = np.bincount(groups, weights=squares, minlength=count)
    without: Double = (sums.sum() - sums) / (pairs.sum() - pairs)
    return without


def _uniformities(slices: list[Double]) -> Double:
    count = len(slices)
    sums = np.zeros((count, count))  # kernels of all pairs between two groups, or within one
    for one in range(count):
        for other in range(one, count):
            kernel = math.exp(log_gaussian_sum(slices[one], slices[other], _T, same=one == other))
            sums[one, other] = sums[other, one] = kernel
    within = np.diag(sums)
    left = (sums.sum() + within.sum()) / 2 - sums.sum(axis=1)
    without: Double = np.log(left / (_pairs_left(slices) / 2))
    return without


def _anisotropies(slices: list[Double]) -> Double:
    sums = np.stack([rows.sum(axis=0) for rows in slices])  # (groups, dim)
    own = np.array([float(np.einsum("sd,sd->", rows, rows)) for rows in slices])  # (groups,)
    rest = sums.sum(axis=0) - sums
    without: Double = (np.einsum("gd,gd->g", rest, rest) - (own.sum() - own)) / _pairs_left(slices)
    return without


def _effective_ranks(slices: list[Double]) -> Double:
    sizes = _sizes(slices)
    # Near the mean of all, the mean of the rest can be taken off afterwards without loss of digits.
    mean = np.sum([rows.sum(axis=0) for rows in slices], axis=0) / sizes.sum()
    centred = [rows - mean for rows in slices]
    products = np.sum([rows.T @ rows for rows in centred], axis=0)  # (dim, dim)

    def covariances() -> Iterator[Double]:
        for rows, size in zip(centred, sizes, strict=True):
            left = sizes.sum() - size
            rest = -rows.sum(axis=0) / left
            yield (products - rows.T @ rows) / left - np.outer(rest, rest)

    return np.array([effective_rank(spectrum) for spectrum in spectra_of(covariances())])


def _pairs_left(slices: list[Double]) -> Double:
    """Ordered pairs of unequal sentences without each group."""
    left: Double = _sizes(slices).sum() - _sizes(slices)
    pairs: Double = left * (left - 1)
    return pairs


def _sizes(slices: list[Double]) -> npt.NDArray[np.float64]:
    return np.array([len(rows) for rows in slices], dtype=np.float64)
