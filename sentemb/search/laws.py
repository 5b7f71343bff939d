"""How a figure grows with the number of texts, fitted to a few measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import nnls

from sentemb.search.codes import FINE_POINTS, LISTS_ROUNDS
from sentemb.search.plan import Kind, ideal_lists
from sentemb.search.recall import hold_out
from sentemb.search.vectors import training_points

_SMALLEST = 1e-3  # seconds or bytes; less is noise


class Term(NamedTuple):
    """A part of a law, such as `n·lists`, and its size for a number of texts."""

    formula: str
    of: Callable[[int], float]


ONE = Term("1", lambda n: 1.0)
COUNT = Term("n", float)
POINTS = Term("points", lambda n: training_points(n, ideal_lists(n)))
COMPARED = Term("(n + 10·points)", lambda n: n + LISTS_ROUNDS * POINTS.of(n))
"""Vectors that are compared with every list, in training and in adding."""
_CODED = Term("coded points", lambda n: min(POINTS.of(n), FINE_POINTS))
_HELD_OUT = Term("n·held out", lambda n: n * len(hold_out(n)))
_PROBED: dict[Kind, Term] = {
    "flat": COUNT,
    "hnsw": Term("held out·log n", lambda n: len(hold_out(n)) * math.log(n)),
    "ivfpq": _HELD_OUT,  # all lists are looked into, to know what codes can find
}


def law_of(step: str, kind: Kind) -> tuple[Term, ...]:
    """What the seconds of a step of a build depend on: the number of texts, where nothing else is known."""
    if step == "train":
        return ONE, _CODED, POINTS
    if step == "lists":
        return (COMPARED,)
    if step == "index" and kind == "hnsw":
        return ONE, Term("n·log n", lambda n: n * math.log(n)), _HELD_OUT
    if step == "index" and kind == "ivfpq":
        return ONE, COUNT, _HELD_OUT
    if step == "tune":
        return ONE, _PROBED[kind]
    return ONE, COUNT


@dataclass(frozen=True)
class Line:
    """One figure of a forecast.

    Attributes:
        name: Of the step, or of what takes room.
        unit: `s` or `bytes`.
        measured: The figure at each size of the sample.
        formula: The law with its factors, such as `0.8 + 2.1e-05·n`.
        forecast: The figure for all texts.
    """

    name: str
    unit: Literal["s", "bytes"]
    measured: tuple[float, ...]
    formula: str
    forecast: float


def fit(
    name: str,
    unit: Literal["s", "bytes"],
    sizes: Sequence[int],
    measured: Sequence[float],
    law: Sequence[Term],
    count: int,
) -> Line:
    """Fit a law to measurements and follow it.

    Its factors are not negative (Lawson and Hanson, 1974): more texts never take less. Relative errors
    count, so that the smallest size says as much as the largest.

    Args:
        name: Of the figure.
        unit: Of the figure.
        sizes: Numbers of texts.
        measured: The figure at each of them.
        law: What it is a sum of.
        count: The number of texts to follow it to.

    Returns:
        The figure.
    """
    figures = np.maximum(measured, _SMALLEST)
    terms = np.array([[term.of(size) for term in law] for size in sizes])
    scale = terms.max(axis=0)
    scale[scale == 0] = 1
    factors = nnls(terms / scale / figures[:, None], np.ones(len(sizes)))[0] / scale
    parts = [
        f"{factor:.3g}" if term is ONE else f"{factor:.3g}·{term.formula}"
        for term, factor in zip(law, factors, strict=True)
        if factor
    ]
    followed = sum(factor * term.of(count) for term, factor in zip(law, factors, strict=True))
    return Line(name, unit, tuple(map(float, measured)), " + ".join(parts), float(followed))
