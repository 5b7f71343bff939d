"""Judgements of two systems by hand: kept in a file, and enough as soon as a confidence sequence says so.

A confidence sequence is an interval after each judgement; all of them together hold the true mean with the
confidence. So anyone may look after every judgement, and stop at will.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sentemb._files import check_writable
from sentemb.data.files import read_lines
from sentemb.errors import InputError
from sentemb.evaluation.statistics import LEVEL

Double = npt.NDArray[np.float64]
Answer = Literal["left", "right", "tie", "same", "skip"]
"""Which side is better; `same` if both systems found the same, and nobody was asked."""

MARGIN = 0.1
"""Shares of one half and this much more are as good as no preference."""
BETS = np.linspace(0.05, 0.95, 10)  # shares of the capital; other grids need as many judgements
_GRID = np.linspace(0.0025, 0.9975, 399)


def confidence_sequence(values: Sequence[float] | Double, *, level: float = LEVEL) -> tuple[float, float]:
    """Return an interval for the mean of a bounded quantity, valid whenever one stops to observe it.

    A gambler bets that the mean is not m. If it is m, the capital is above 1 / level at any time with at most
    this probability. The interval holds the means at which the capital is below; the capital is the mean of
    that of several fixed bets, on both sides.

    Args:
        values: The observations so far, each from 0 to 1, in any order.
        level: Probability that one of all intervals, after each observation, does not hold the mean.

    Raises:
        InputError: A value is not from 0 to 1.

    Example:
        >>> low, high = confidence_sequence([1.0] * 30 + [0.0] * 10)
        >>> print(f"{low:.2f} to {high:.2f}")
        0.51 to 0.92

    Reference:
        Waudby-Smith, Ramdas: Estimating means of bounded random variables by betting. JRSS B, 2024
        (diversified Kelly betting).
    """
    found, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    if not ((found >= 0) & (found <= 1)).all():
        raise InputError("a value is not a number from 0 to 1", "scale the values to this range")
    inside = _GRID[log_capital(found, counts, _GRID) < -np.log(level)]
    if not len(inside):  # between two points of the grid
        inside = np.array([float(found @ counts) / counts.sum()])
    step = float(_GRID[1] - _GRID[0])
    return max(0.0, float(inside[0]) - step), min(1.0, float(inside[-1]) + step)


def log_capital(values: Double, counts: npt.ArrayLike, means: npt.ArrayLike) -> Double:
    """Return the logarithm of the capital of bets against each mean, after values that occur so often."""
    means = np.atleast_1d(np.asarray(means, dtype=np.float64))[:, None]
    bets = np.concatenate([BETS / means, -BETS / (1 - means)], axis=1)  # (means, bets)
    gains = np.log1p(bets[..., None] * (values - means)[:, None, :]) @ np.asarray(counts, dtype=np.float64)
    return np.asarray(np.logaddexp.reduce(gains, axis=1) - np.log(bets.shape[1]))


@dataclass(frozen=True)
class Standing:
    """The outcome of the judgements so far."""

    judged: int  # queries, without skipped ones
    share: float  # of the queries for which the second system is better; ties count half
    interval: tuple[float, float]  # confidence sequence of the share
    decided: Literal["first", "second", "neither"] | None  # None: more judgements are needed

    @classmethod
    def of(cls, values: Sequence[float]) -> Standing:
        """Return the standing of judgements: 0 if the first is better, 1 the second, 0.5 a tie."""
        if not values:
            return cls(0, 0.5, (0.0, 1.0), None)
        low, high = confidence_sequence(values)
        decided: Literal["first", "second", "neither"] | None = None
        if low > 0.5 or high < 0.5:
            decided = "second" if low > 0.5 else "first"
        elif low >= 0.5 - MARGIN and high <= 0.5 + MARGIN:
            decided = "neither"
        return cls(len(values), float(np.mean(values)), (low, high), decided)

    def sentence(self, systems: tuple[str, str]) -> str:
        """Return the outcome in a sentence that names the systems."""
        (first, second), (low, high), share = systems, self.interval, self.share
        if self.decided == "first" or (self.decided is None and share < 0.5):
            first, second, low, high, share = second, first, 1 - high, 1 - low, 1 - share
        shown = (
            f"{second} is preferred for {100 * share:.0f} % of {self.judged:,} queries, ties counted half "
            f"(95 % confidence sequence {100 * low:.1f} to {100 * high:.1f} %)"
        )
        if self.decided is None:
            return f"not enough to decide: {shown}"
        if self.decided == "neither":
            return f"neither is preferred for more than {50 + 100 * MARGIN:.0f} % of the queries: {shown}"
        return f"{second} is better than {first}: {shown}"


class Judgements:
    """A file of judgements: what is compared in the first line, then a line for each query."""

    def __init__(self, path: Path, compared: Mapping[str, Any]) -> None:
        self.path = path
        self._values: dict[str, float | None] = {}  # None of a skipped query
        check_writable(path.absolute().parent)
        head = _line_of(compared)
        content = path.read_bytes() if path.exists() else b""
        if head.startswith(content):  # a new file, or one whose first line was not finished
            path.write_bytes(head)
            return
        if not content.startswith(head):
            first = content[:200].decode("utf-8", "replace").split("\n")[0]
            raise InputError(
                f"{path} has something else than judgements of these systems: {first}",
                "name another file with --output",
            )
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # a process was killed while it wrote
            with path.open("r+b") as file:
                file.truncate(whole)
        for number, line in read_lines(path):
            try:
                if number > 1:
                    row = json.loads(line)
                    self._values[row["query"]] = row["value"]
            except (ValueError, KeyError, TypeError):
                message = f"{path}, line {number}: not a judgement of `sentemb judge`"
                raise InputError(message, "remove the line") from None

    def __contains__(self, query: str) -> bool:
        return query in self._values

    @property
    def standing(self) -> Standing:
        """The outcome so far."""
        return Standing.of([value for value in self._values.values() if value is not None])

    def add(
        self, query: str, answer: Answer, *, second_is_left: bool, found: Sequence[Sequence[str]]
    ) -> None:
        """Append a judgement, on disk when this returns; `found` are the ids that each system found."""
        value = {"tie": 0.5, "same": 0.5, "skip": None}.get(
            answer, float((answer == "left") == second_is_left)
        )
        row = {"query": query, "value": value, "answer": answer, "second_is_left": second_is_left}
        self._write({**row, "found": list(map(list, found))})
        self._values[query] = value

    def _write(self, row: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(_line_of(row))
            file.flush()
            os.fsync(file.fileno())


def _line_of(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
