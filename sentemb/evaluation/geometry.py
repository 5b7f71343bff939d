"""Geometry of sentence vectors on the unit sphere: alignment and uniformity, anisotropy and spectrum.

Alignment says how near vectors of one meaning are, uniformity how evenly all vectors are spread; lower is
better for both. An encoder whose vectors all point one way is perfectly aligned and not uniform at all, one
that scatters at random is the reverse: only both together mean something. Anisotropy says how far all vectors
share one direction, the spectrum over how many directions the rest is spread. Everything is computed in
float64 on unit vectors; a zero vector, which has no direction, stays zero.

Intervals say how far the figures would move with other sentences of the same kind. Sentences are not drawn
one by one: the two of a pair are alike, and some stand in several pairs. The parts of the graph that pairs
make of sentences are independent. They are dealt to twenty groups, each figure is measured again without each
group, and the spread of the twenty values gives the error of the whole (the delete-a-group jackknife), with
Student's t for its nineteen degrees of freedom. A bootstrap would fail here: sentences drawn twice are at
distance 0 from each other and span fewer directions, so that its effective ranks lie far below the one they
should scatter around. So do those of few sentences below those of many: figures of different numbers of
sentences do not compare.

References:
    Wang and Isola: Understanding Contrastive Representation Learning through Alignment and Uniformity on the
    Hypersphere. ICML 2020. https://proceedings.mlr.press/v119/wang20k.html
    Ethayarajh: How Contextual are Contextualized Word Representations? EMNLP 2019.
    https://aclanthology.org/D19-1006
    Roy and Vetterli: The effective rank: A measure of effective dimensionality. EUSIPCO 2007.
    Wolter: Introduction to Variance Estimation, chapter 4. Springer, 2007.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student

from sentemb._threads import one_blas_thread
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import TextEncoder
from sentemb.errors import InputError, naming
from sentemb.evaluation.environment import new_record
from sentemb.evaluation.schema import Record, Score
from sentemb.evaluation.sts import EncodedSets, Rows, checksum_of, dataset_of, encode_sets
from sentemb.evaluation.suites import GEOMETRY, Loaded, LoadedSuite, Options, Suite, read_available

Floats = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]

BLOCK = 1024
"""Rows of a block: its squared distances are 8 MiB in float64, small enough to stay near the core."""
# On the 0 to 5 of STS: above 4, as in SimCSE (Gao et al., EMNLP 2021, section 3).
_POSITIVES_FROM = 0.8


class Geometry(NamedTuple):
    """Geometry of the vectors of scored pairs."""

    alignment: float  # mean squared distance of the positive pairs, in [0, 4]; 0 is best
    uniformity: float  # log of the mean Gaussian kernel of all pairs, in [-8, 0]; lower is better
    anisotropy: float  # mean cosine of all pairs, at most 1; near 0 where no direction is preferred
    effective_rank: float  # over how many directions the sentences are spread, up to the dimension


GROUPS = 20
_CONFIDENCE = 0.95
_T = 2.0  # sharpness of the kernel in Wang and Isola's experiments
_LEAST = 3  # parts, so that two sentences are left without one of them
_LOWEST = Geometry(alignment=0.0, uniformity=-4 * _T, anisotropy=-1.0, effective_rank=0.0)
_HIGHEST = Geometry(alignment=4.0, uniformity=0.0, anisotropy=1.0, effective_rank=math.inf)


def measure_geometry(encoded: EncodedSets) -> Geometry:
    """Measure the alignment of the pairs that mean the same, and how all sentences are spread.

    SimCSE's figure 2 shows alignment and uniformity on STS-B. Positives are the pairs in the upper fifth of
    their set's range of scores: those above 4 where it goes from 0 to 5, as there, and another scale needs no
    threshold of its own. A sentence that several pairs share counts once.
    """
    first, second = positive_pairs(encoded)
    vectors = encoded.vectors
    return Geometry(
        alignment(vectors[first], vectors[second]),
        uniformity(vectors),
        anisotropy(vectors),
        effective_rank(spectrum(vectors)),
    )


def positive_pairs(encoded: EncodedSets) -> tuple[Rows, Rows]:
    """Return the pairs of one meaning, as `measure_geometry` chooses them."""
    chosen = []
    for one, (first, second) in zip(encoded.pairs, encoded.rows, strict=True):
        low, high = float(one.gold.min()), float(one.gold.max())
        is_positive = one.gold > low + _POSITIVES_FROM * (high - low)
        chosen.append(np.stack([first[is_positive], second[is_positive]]))
    both = np.concatenate(chosen, axis=1)
    return both[0], both[1]


def alignment(first: Floats, second: Floats) -> float:
    """Return the mean squared distance of positive pairs of unit vectors, each side of shape (pairs, dim)."""
    if first.shape != second.shape:
        raise InputError(
            f"alignment needs vectors of the same shape, but got {first.shape} and {second.shape}",
            "pass one positive partner per vector",
        )
    if len(first) == 0:
        raise InputError(
            "alignment needs at least one positive pair", "provide pairs that have the same meaning"
        )
    total = 0.0
    for left, right in zip(_blocks(unit_rows(first)), _blocks(unit_rows(second)), strict=True):
        difference = left - right  # (block, dim)
        total += float(np.sum(np.einsum("bd,bd->b", difference, difference)))
    return total / len(first)


@one_blas_thread()
def uniformity(vectors: Floats) -> float:
    """Return the log of the mean of `exp(-2 * |x - y| ** 2)` over all unordered pairs of rows (n, dim).

    Squared distances come block by block from matrix products, and their exponentials are added in the log
    domain.
    """
    unit = unit_rows(vectors, at_least=2)
    count = len(unit)
    return log_gaussian_sum(unit, unit, same=True) - math.log(count * (count - 1) / 2)


@one_blas_thread()
def anisotropy(vectors: Floats) -> float:
    """Return the mean cosine over all unordered pairs of rows (n, dim) (Ethayarajh, 2019, section 3.3).

    There it is estimated from a sample of pairs; the squared length of the sum of all unit vectors is the sum
    of all cosines, so that all pairs cost no more than one pass.
    """
    unit = unit_rows(vectors, at_least=2)
    count, total, own = len(unit), np.zeros(unit.shape[1]), 0.0
    for block in _blocks(unit):
        total += block.sum(axis=0)
        own += float(np.einsum("bd,bd->", block, block))
    return (float(total @ total) - own) / (count * (count - 1))


@one_blas_thread()
def spectrum(vectors: Floats) -> Double:
    """Return the eigenvalues (dim,) of the covariance of unit vectors (n, dim) in descending order.

    What is no more than rounding is 0. They add up to 1 less the squared length of the mean vector, unless
    some vector is zero.
    """
    unit = unit_rows(vectors, at_least=2)
    mean = np.zeros(unit.shape[1])  # (dim,)
    for block in _blocks(unit):
        mean += block.sum(axis=0) / len(unit)
    # The mean is taken off before the products: where all vectors crowd together, taking its square off
    # afterwards would leave rounding.
    covariance = np.zeros((len(mean), len(mean)))  # (dim, dim)
    for block in _blocks(unit):
        centred = block - mean
        covariance += centred.T @ centred / len(unit)
    return _eigenvalues(covariance)


def _eigenvalues(covariance: Double) -> Double:
    values = np.linalg.eigvalsh(covariance).astype(np.float64)[::-1]
    # Of unit vectors, so that rounding has a known size.
    return np.where(values > len(values) * np.finfo(np.float64).eps, values, 0.0)


def effective_rank(eigenvalues: Double) -> float:
    """Return the number of directions of vectors: exp of the entropy of their singular values.

    Roy and Vetterli's definition, of the centred vectors: singular values are the square roots of the
    covariance's eigenvalues, up to a factor that their normalisation to sum 1 takes out. It is 0 where all
    vectors are equal, so that there is no spread at all.
    """
    singular = np.sqrt(eigenvalues[eigenvalues > 0])
    if len(singular) == 0:
        return 0.0
    shares = singular / singular.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


def unit_rows(vectors: Floats, *, at_least: int = 0) -> Double:
    """Return vectors of length 1, in float64."""
    if len(vectors) < at_least:
        raise InputError(
            f"the geometry needs at least two sentences, not {len(vectors)}", "provide more sentences"
        )
    double = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(double).all():
        raise InputError("a vector contains NaN or infinity", "check the encoder's weights")
    norms = np.linalg.norm(double, axis=1, keepdims=True)  # (n, 1)
    unit: Double = np.divide(double, norms, out=np.zeros_like(double), where=norms > 0)
    return unit


def _blocks(unit: Double) -> Iterator[Double]:
    return (unit[start : start + BLOCK] for start in range(0, len(unit), BLOCK))


def log_gaussian_sum(rows: Double, columns: Double, *, same: bool) -> float:
    """Return the log of the summed Gaussian kernel of all pairs of rows and columns."""
    parts = []
    for start in range(0, len(rows), BLOCK):
        for other in range(start if same else 0, len(columns), BLOCK):
            first, second = rows[start : start + BLOCK], columns[other : other + BLOCK]
            squares = np.einsum("rd,rd->r", first, first)[:, None] + np.einsum("cd,cd->c", second, second)
            squares -= 2 * (first @ second.T)  # (rows, columns)
            # Equal vectors come out a rounding error below zero.
            logits = np.minimum(-_T * squares, 0.0)  # (rows, columns)
            if same and start == other:
                logits[np.tril_indices(len(first))] = -np.inf
            highest = float(logits.max())
            if highest > -np.inf:  # a last block of one row has no pair with itself
                parts.append(highest + math.log(float(np.exp(logits - highest).sum())))
    return float(np.logaddexp.reduce(parts))


class GeometryEstimate(NamedTuple):
    """Figures of geometry with intervals."""

    geometry: Geometry
    low: Geometry  # ends of the intervals
    high: Geometry
    positives: int  # pairs that alignment is measured on
    sentences: int  # unique ones
    independent: int  # parts that no pair connects, which the intervals treat as independent draws


@one_blas_thread()
def estimate_geometry(encoded: EncodedSets, *, confidence: float = 0.95) -> GeometryEstimate:
    """Measure alignment, uniformity, anisotropy and effective rank with an interval each.

    Compared with `measure_geometry` this costs another pass over all pairs of sentences and twenty
    eigendecompositions.
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
    sizes = np.array([len(rows) for rows in slices], dtype=np.float64)
    left = sizes.sum() - sizes  # sentences without each group
    pairs = left * (left - 1)  # ordered pairs of different ones
    without = np.stack(  # (figures, groups)
        [
            _alignments(unit[first] - unit[second], groups[first], len(slices)),
            _uniformities(slices, pairs),
            _anisotropies(slices, pairs),
            _effective_ranks(slices, left),
        ]
    )
    count = len(slices)
    deviations = without - without.mean(axis=1, keepdims=True)
    errors = np.sqrt((count - 1) / count * np.sum(deviations**2, axis=1))
    reach = student.ppf((1 + confidence) / 2, count - 1) * errors
    geometry = measure_geometry(encoded)
    return GeometryEstimate(
        geometry,
        Geometry(*(max(*ends) for ends in zip(np.subtract(geometry, reach).tolist(), _LOWEST, strict=True))),
        Geometry(*(min(*ends) for ends in zip(np.add(geometry, reach).tolist(), _HIGHEST, strict=True))),
        positives=len(first),
        sentences=len(unit),
        independent=int(parts.max()) + 1,
    )


def independent_parts(encoded: EncodedSets) -> Rows:
    """Return the part of each sentence: sentences are in one part where pairs lead from one to the other."""
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


def _alignments(differences: Double, groups: Rows, count: int) -> Double:
    squares = np.einsum("pd,pd->p", differences, differences)  # (positives,)
    pairs = np.bincount(groups, minlength=count)
    if np.count_nonzero(pairs) < _LEAST:
        raise InputError(
            f"the interval of alignment needs at least {_LEAST} positive pairs that do not share a sentence",
            "provide more pairs that have the same meaning",
        )
    sums = np.bincount(groups, weights=squares, minlength=count)
    return np.asarray((sums.sum() - sums) / (pairs.sum() - pairs))


def _uniformities(slices: list[Double], pairs: Double) -> Double:
    count = len(slices)
    sums = np.zeros((count, count))  # kernels of all pairs between two groups, or within one
    for one in range(count):
        for other in range(one, count):
            kernel = math.exp(log_gaussian_sum(slices[one], slices[other], same=one == other))
            sums[one, other] = sums[other, one] = kernel
    left = (sums.sum() + np.diag(sums).sum()) / 2 - sums.sum(axis=1)
    return np.asarray(np.log(left / (pairs / 2)))


def _anisotropies(slices: list[Double], pairs: Double) -> Double:
    sums = np.stack([rows.sum(axis=0) for rows in slices])  # (groups, dim)
    own = np.array([float(np.einsum("sd,sd->", rows, rows)) for rows in slices])  # (groups,)
    rest = sums.sum(axis=0) - sums
    return np.asarray((np.einsum("gd,gd->g", rest, rest) - (own.sum() - own)) / pairs)


def _effective_ranks(slices: list[Double], left: Double) -> Double:
    # Near the mean of all, the mean of the rest can be subtracted afterwards without loss of digits.
    mean = np.sum([rows.sum(axis=0) for rows in slices], axis=0) / sum(map(len, slices))
    centred = [rows - mean for rows in slices]
    products = np.sum([rows.T @ rows for rows in centred], axis=0)  # (dim, dim)
    ranks = []
    for rows, count in zip(centred, left, strict=True):
        rest = -rows.sum(axis=0) / count
        ranks.append(effective_rank(_eigenvalues((products - rows.T @ rows) / count - np.outer(rest, rest))))
    return np.array(ranks)


def load(suite: Suite, options: Options) -> Loaded:
    """Read the scored pairs whose sentences are measured."""

    def read(name: str) -> ScoredPairs:
        return load_scored_pairs(
            name, split=options.split, data_dir=options.data_dir, check_rows=options.check_rows
        )

    found, missing = read_available([options.pairs], read)
    return Loaded(tuple(map(geometry_suite, found.values())), missing)


def geometry_suite(pairs: ScoredPairs) -> LoadedSuite:
    """Return the suite of the geometry of one set of pairs."""
    protocol = f"{pairs.name}-{pairs.split}"

    def evaluate(encoder: TextEncoder, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        began = time.perf_counter()
        with naming(pairs.source or pairs.name):
            encoded = encode_sets(encoder, [pairs])
            estimate = estimate_geometry(encoded, confidence=_CONFIDENCE)
        figures = zip(Geometry._fields, estimate.geometry, estimate.low, estimate.high, strict=True)
        record = new_record(
            GEOMETRY.name,
            encoder,
            {"geometry": time.perf_counter() - began},
            protocol=protocol,
            datasets=(dataset_of(pairs),),
            scores=tuple(
                Score(dataset=pairs.name, metric=metric, value=value, low=low, high=high)
                for metric, value, low, high in figures
            ),
            details={
                "confidence": _CONFIDENCE,
                "positives": estimate.positives,
                "sentences": estimate.sentences,
                "independent": estimate.independent,
                "spectrum": spectrum(encoded.vectors).tolist(),
            },
        )
        measured = estimate.geometry
        yield record, f"alignment {measured.alignment:.3f}, uniformity {measured.uniformity:.3f}"

    return LoadedSuite(
        name=GEOMETRY.name,
        protocol=protocol,
        checksums={pairs.name: checksum_of(pairs)},
        texts={pairs.name: [*pairs.first, *pairs.second]},
        evaluate=evaluate,
    )
