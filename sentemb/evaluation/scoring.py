"""The score of one set of pairs: cosines and correlations under every protocol (see `measures`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sentemb._files import shareable
from sentemb.data.sts import ScoredPairs, Subset
from sentemb.errors import InputError
from sentemb.evaluation.correlation import CorrelationError, pearson, spearman
from sentemb.evaluation.measures import PROTOCOLS, Protocol, combine
from sentemb.evaluation.schema import DataSet, Score

Similarities = npt.NDArray[np.float64]

# Rows per step: two float64 blocks of 4,096 x 768 are 48 MiB.
_BATCH = 4096
# The floor under each norm, as in torch.nn.functional.cosine_similarity.
_EPS = 1e-8
_BELOW_ONE = np.nextafter(1.0, 0.0)


class UndefinedScoreError(InputError):
    """A set has no score: its similarities are constant or not finite."""


def check_gold(pairs: ScoredPairs) -> None:
    """Refuse a set whose gold scores cannot be ranked, before anything is encoded for it."""
    whole = Subset(pairs.name, 0, len(pairs))
    for part in (whole, *pairs.subsets):
        gold = pairs.gold[part.start : part.stop]
        try:
            spearman(gold, gold)
        except CorrelationError:
            place = f"{pairs.name} {pairs.split}" + (f" ({pairs.source})" if pairs.source else "")
            raise InputError(
                f"{place}: the {len(gold)} gold scores of {part.name} are all equal",
                "provide pairs with at least two different scores",
            ) from None


def pair_cosines(
    vectors: npt.NDArray[np.floating], first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]
) -> Similarities:
    """Cosine of each pair of rows, in float64.

    A row paired with itself gives exactly 1, so that identical sentences tie. Two rows that hold equal
    vectors, as different strings have that a tokenizer reads alike, tie at the number just below 1. Left to
    rounding, the 61 identical and 18 such pairs of STS12 move the score of all-MiniLM-L6-v2 between 72.364
    and 72.371. A zero vector gives 0 with everything, itself included, as in torch.
    """
    cosines = np.empty(len(first), dtype=np.float64)
    for start in range(0, len(first), _BATCH):
        rows = slice(start, start + _BATCH)
        left = vectors[first[rows]].astype(np.float64)  # (batch, dim)
        right = vectors[second[rows]].astype(np.float64)  # (batch, dim)
        squares = [np.maximum(np.einsum("bd,bd->b", side, side), _EPS**2) for side in (left, right)]
        # The root of the product, not the product of the roots: for equal vectors it equals their product.
        cosines[rows] = np.einsum("bd,bd->b", left, right) / np.sqrt(squares[0] * squares[1])  # (batch,)
    cosines = np.clip(cosines, -1.0, _BELOW_ONE)
    cosines[(first == second) & (cosines > 0)] = 1.0
    return cosines


def score_pairs(pairs: ScoredPairs, similarities: Similarities) -> tuple[Score, ...]:
    """Score one set under every protocol: correlations x 100.

    A set without subsets has the same score under all three protocols; a copy that does not say which pair
    belongs to which subset, as MTEB's, has `all` alone.
    """
    return tuple(
        Score(dataset=pairs.name, metric=metric, protocol=protocol, value=value)
        for metric, correlation in (("spearman", spearman), ("pearson", pearson))
        for protocol, value in _by_protocol(correlation, similarities, pairs).items()
    )


def dataset_of(pairs: ScoredPairs) -> DataSet:
    """What a record says of a set of pairs."""
    return DataSet(
        name=pairs.name,
        split=pairs.split,
        items=len(pairs),
        sha256=checksum_of(pairs),
        source=shareable(pairs.source),
        subsets=pairs.subsets if len(pairs.subsets) > 1 else (),
    )


def checksum_of(pairs: ScoredPairs) -> str:
    """Checksum of what is scored, whatever file it came from."""
    digest = hashlib.sha256()
    for first, second, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
        for text in (first, second):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        digest.update(float(gold).hex().encode("ascii"))
    return digest.hexdigest()


def _by_protocol(
    correlation: Callable[[Similarities, Similarities], float], similarities: Similarities, pairs: ScoredPairs
) -> dict[Protocol, float]:
    def correlate(place: str, rows: slice) -> float:
        try:
            return 100 * correlation(similarities[rows], pairs.gold[rows])
        except CorrelationError as error:
            raise UndefinedScoreError(
                f"{place}: {error}", "check the encoder's vectors, or exclude the set"
            ) from error

    whole = correlate(pairs.name, slice(None))
    if pairs.undivided:
        return {"all": whole}
    if len(pairs.subsets) == 1:
        return dict.fromkeys(PROTOCOLS, whole)
    parts = [correlate(f"{pairs.name}/{part.name}", slice(part.start, part.stop)) for part in pairs.subsets]
    sizes = [part.stop - part.start for part in pairs.subsets]
    return {"all": whole, "mean": combine(parts, sizes, "mean"), "wmean": combine(parts, sizes, "wmean")}
