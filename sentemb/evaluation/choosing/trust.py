"""How well a ranking by cut queries has agreed with the ranking by judged ones, on sets that have both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

FILE = "agreement.json"
"""What `benchmarks/choose.py` measured."""


@dataclass(frozen=True)
class Trust:
    """Kendall's tau between the ranking by cut queries and the true one by NDCG@10.

    Attributes:
        systems: How many systems were ranked.
        sets: How many sets of judged queries they were ranked on.
        tau: The mean over the sets.
        interval: Of the mean, at 95 %, by the bootstrap over the sets.
        lowest: The lowest tau of a set.
        lowest_set: That set.
        pairs: How many pairs of systems were told apart, over all sets.
        wrong: How many of these the wrong way round, with a true difference of more than 5 NDCG@10.
    """

    systems: int
    sets: int
    tau: float
    interval: tuple[float, float]
    lowest: float
    lowest_set: str
    pairs: int
    wrong: int

    def sentence(self) -> str:
        """The trust in a line."""
        low, high = self.interval
        return (
            f"such a ranking of {self.systems} systems agreed with judged queries on {self.sets} sets at "
            f"Kendall's tau {self.tau:.2f} (95 % interval {low:.2f} to {high:.2f}; lowest {self.lowest:.2f}, "
            f"{self.lowest_set}); of {self.pairs:,} pairs told apart {self.wrong} were wrong by more than 5 "
            "NDCG@10"
        )


def measured_trust() -> Trust:
    """What was measured, from the package's data."""
    text = resources.files(__package__ or "").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["summary"]
    return Trust(**{**found, "interval": tuple(found["interval"])})
