"""Forest plots: differences from a baseline with their intervals, one row per system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TICKS = 5
# Of the width, left free on both sides so that no end of an interval touches the edge.
_MARGIN = 0.04


@dataclass(frozen=True)
class Estimate:
    """A row of a forest plot.

    Attributes:
        name: The system.
        size: Its difference from the baseline.
        low: Lower end of the interval.
        high: Upper end.
        significant: Whether the difference is significant.

    Example:
        >>> Estimate("simcse", 3.2, 2.7, 3.7, True).size
        3.2
    """

    name: str
    size: float
    low: float
    high: float
    significant: bool


@dataclass(frozen=True)
class ForestPlot:
    """Differences from one baseline, to be drawn on a common axis.

    Attributes:
        title: What is compared with what.
        axis: What the axis counts.
        estimates: The rows.

    Example:
        >>> plot = ForestPlot("Against the base", "difference", [Estimate("simcse", 3.2, 2.7, 3.7, True)])
    """

    title: str
    axis: str
    estimates: Sequence[Estimate]

    def layout(self) -> dict[str, object]:
        """The places of everything in percent of the width, for the page's template."""
        ends = [end for one in self.estimates for end in (one.low, one.high)]
        low, high = min(0.0, *ends), max(0.0, *ends)
        span = (high - low) or 1.0
        low, high = low - _MARGIN * span, high + _MARGIN * span

        def place(value: float) -> float:
            return round(100 * (value - low) / (high - low), 2)

        return {
            "title": self.title,
            "axis": self.axis,
            "zero": place(0.0),
            "ticks": [
                {"place": place(tick), "text": f"{tick:+g}" if tick else "0"} for tick in _ticks(low, high)
            ],
            "rows": [
                {
                    "name": one.name,
                    "estimate": place(one.size),
                    "low": place(one.low),
                    "high": place(one.high),
                    "text": f"{one.size:+.2f}  ({one.low:+.2f} to {one.high:+.2f})",
                    "significant": one.significant,
                }
                for one in self.estimates
            ],
        }


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, about five of them."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(number * step, 10) for number in range(first, last + 1)]
