"""The pairs at both ends of a scale of similarity, for showing how vectors treat them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError

Rows = npt.NDArray[np.intp]


class Extremes(NamedTuple):
    """Numbers of pairs at both ends.

    Attributes:
        positive: The most similar, shape (count,).
        negative: The least similar, shape (count,).
    """

    positive: Rows
    negative: Rows


def draw_extremes(gold: npt.NDArray[np.floating], *, count: int = 20, seed: int = 0) -> Extremes:
    """Draw pairs of the highest and of the lowest scores (SG-BERT, section 5.4).

    The paper draws 20 pairs scored 5 and 20 scored 0 from STS-B dev. Where a set has fewer pairs of its
    highest or lowest score, those of the next score follow.

    Args:
        gold: Scores on any scale, shape (pairs,).
        count: Pairs of each kind.
        seed: Of the draw among pairs of equal score.

    Returns:
        Both kinds.

    Raises:
        InputError: There are too few pairs, or the two kinds would have a score in common.

    Example:
        >>> ends = draw_extremes(np.arange(100) / 20, count=3, seed=1)
        >>> sorted(ends.positive.tolist())[0] > sorted(ends.negative.tolist())[-1]
        True
    """
    if not 0 < count <= len(gold) // 2:
        raise InputError(
            f"cannot draw {count} positive and {count} negative pairs from {len(gold)}",
            f"choose 1 to {len(gold) // 2}" if len(gold) > 1 else "use more pairs",
        )
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    ordered = shuffled[np.argsort(gold[shuffled], kind="stable")]
    negative, positive = ordered[:count], ordered[-count:]
    if gold[positive].min() <= gold[negative].max():
        raise InputError(
            f"the {count} highest and the {count} lowest scores overlap at {gold[negative].max():g}",
            "draw fewer pairs, or use pairs with more different scores",
        )
    return Extremes(positive, negative)
