"""Percentiles of scores: the share of random pairs of texts in the corpus with a lower similarity."""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError

# Of 2,000 texts there are 2 million pairs, and their percentiles differ from seed to seed by .1 at 95.
_TEXTS, _FEWEST_TEXTS = 2_000, 50
# A share of pairs that fewer than this many of the sample make up is not known.
_FEWEST_PAIRS = 10
_DIGITS = 4
_FINENESS = 20  # bits of a number of a vector
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Calibration:
    """Similarities of random pairs of texts, which give the percentile of a score.

    Args:
        texts: Number of texts drawn; all of their pairs were compared.
        scores: The score that shares of the pairs exceed: 99.9 %, 99.8, 99.5, 99, 98, 95, 90, 80 ... 10, 5,
            2, 1, 0.5 and so on, down to the last share that 10 pairs make up.

    Example:
        >>> SearchIndex.load("index").manifest.calibration.texts
        65
    """

    texts: int
    scores: tuple[float, ...]

    @property
    def pairs(self) -> int:
        """Number of pairs that were compared."""
        return self.texts * (self.texts - 1) // 2

    @property
    def most(self) -> float:
        """The highest percentile that this number of pairs can resolve."""
        return round(100 * (1 - _shares(self.pairs)[-1]), _DIGITS)

    def percentile(self, score: float) -> float:
        """Return the percentage of random pairs with a lower score.

        Args:
            score: A score of the index.

        Returns:
            0 to `most`, which also stands for everything above; it never falls as the score rises.
        """
        return self.percentiles([score])[0]

    def percentiles(self, scores: Sequence[float]) -> list[float]:
        """Return the percentiles of several scores."""
        points, odds = self.scores, _odds(self.pairs)
        found = []
        for score in scores:
            place = bisect.bisect_left(points, score)
            if place == 0 and score < points[0]:
                found.append(0.0)
                continue
            low, high = max(place - 1, 0), min(place, len(points) - 1)
            # Between two points the logarithm of the odds is a straight line, as in the tails it is.
            width = points[high] - points[low]
            part = (score - points[low]) / width if width > 0 else 0.0
            found.append(round(100 / (1 + math.exp(odds[low] + part * (odds[high] - odds[low]))), _DIGITS))
        return found

    def score(self, percentile: float) -> float:
        """Return the lowest score that has a percentile.

        Args:
            percentile: 0 to `most`.

        Returns:
            The score; minus infinity for 0.

        Raises:
            InputError: It is not a percentile, or higher than the sample of pairs can tell.
        """
        if not 0 <= percentile <= 100:
            raise InputError(f"min_score {percentile:g}% is not a percentile", "choose 0% to 100%")
        if percentile > self.most:
            raise InputError(
                f"min_score {percentile:g}% cannot be resolved with {self.pairs:,} random pairs",
                f"choose {self.most:g}% or less, or pass a score",
            )
        return _lowest(self, percentile)

    def show(self, percentile: float | None) -> str:
        """Write a percentile for people, with as many digits as tell it from 100."""
        if percentile is None:
            return ""
        if percentile >= self.most:
            return f"> {self.most:g}"
        digits = 1 if percentile < 99 else -math.floor(math.log10(100 - percentile))
        return f"{percentile:.{digits}f}"


def calibrate(count: int, rows: Callable[[NDArray[np.int64]], Vectors]) -> Calibration | None:
    """Compare all pairs of up to 2,000 vectors; return None where there are too few.

    Args:
        count: How many vectors there are.
        rows: Returns the vectors (n, dim) at some places, whose inner products are scores.
    """
    if count < _FEWEST_TEXTS:
        return None
    chosen = np.sort(np.random.default_rng(2).choice(count, min(count, _TEXTS), replace=False))
    vectors = rows(chosen.astype(np.int64))
    # Whole numbers add up exactly in any order, so that the number of threads does not matter.
    scale = _FINENESS - math.frexp(float(np.abs(vectors).max()))[1]
    whole = np.rint(np.ldexp(vectors.astype(np.float64), scale))
    upper = []
    for start in range(0, len(whole), _BLOCK):
        scores = whole[start : start + _BLOCK] @ whole.T
        upper += [scores[row, start + row + 1 :] for row in range(len(scores))]
    pairs = np.ldexp(np.concatenate(upper), -2 * scale)
    pairs.sort()
    places = [min(round(len(pairs) * (1 - share)), len(pairs) - 1) for share in _shares(len(pairs))]
    return Calibration(len(vectors), tuple(float(f"{score:.6g}") for score in pairs[places]))


def lowest_score(min_score: float | str | None, calibration: Calibration | None, texts: int) -> float | None:
    """Return the score that `min_score` stands for, as it is or in percent, in an index of so many texts."""
    if min_score is None:
        return None
    written = str(min_score).strip()
    number = math.nan
    with contextlib.suppress(ValueError):
        number = math.nan if isinstance(min_score, bool) else float(written.removesuffix("%"))
    if math.isnan(number):
        raise InputError(f"min_score {min_score!r} is neither a score nor a percentile", "write 0.5 or 99%")
    if not written.endswith("%"):
        return number
    if calibration is not None:
        return calibration.score(number)
    if texts < _FEWEST_TEXTS:
        raise InputError(
            f"percentiles need at least {_FEWEST_TEXTS} texts, but the index has {texts:,}", "pass a score"
        )
    raise InputError(
        f"min_score {written} needs percentiles, which this index does not have",
        "add them with `sentemb index compact`, or pass a score",
    )


@functools.lru_cache
def _lowest(calibration: Calibration, percentile: float) -> float:
    if percentile == 0:
        return -math.inf
    low, high = math.nextafter(calibration.scores[0], -math.inf), calibration.scores[-1]
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if calibration.percentile(middle) >= percentile else (middle, high)
    # It is compared with scores of single precision, in which it must not become lower.
    single = np.float32(high)
    return float(single if float(single) >= high else np.nextafter(single, np.float32(np.inf)))


@functools.lru_cache
def _odds(pairs: int) -> list[float]:
    """Return the logarithm of the odds that a random pair exceeds each score of a calibration."""
    return [math.log(share / (1 - share)) for share in _shares(pairs)]


@functools.lru_cache
def _shares(pairs: int) -> list[float]:
    """Return the shares of pairs whose scores a calibration holds, falling."""
    body = [0.999, 0.998, 0.995, 0.99, 0.98, 0.95, *(tenths / 10 for tenths in range(9, 0, -1))]
    tail = [first / 10**power for power in range(2, 9) for first in (5, 2, 1)]
    return [share for share in (*body, *tail) if share * pairs >= _FEWEST_PAIRS]
