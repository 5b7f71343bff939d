"""How an adaptation ends: better, or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb.evaluation.comparison import Comparison, Difference


def doubtful(comparison: Comparison) -> list[Difference]:
    """The kinds of queries without a significant gain.

    Training pairs resemble some kinds more than others, so that a gain in these alone may be theirs only.
    """
    return [one for one in comparison.sets if not one.real or one.size <= 0]


@dataclass(frozen=True)
class Adapted:
    """A finished adaptation.

    Attributes:
        output: The folder; it loads as a `SentenceTransformer`.
        base: The name of the base.
        helped: Whether every kind of held-out query gains significantly; if not, the folder holds the base as
            it was.
        comparison: The changed weights against the base, by NDCG@10 on held-out queries.
        step: The step whose weights were taken.
        share: How much of the change was kept: 1 is the trained weights, 0 the base.
        general: Spearman's correlation x 100 on general pairs, before and after; None where not watched.
    """

    output: Path
    base: str
    helped: bool
    comparison: Comparison
    step: int
    share: float
    general: tuple[float, float] | None = None

    @property
    def change(self) -> Difference:
        """The change, on the mean of the kinds of queries."""
        return self.comparison.headline

    def verdict(self) -> str:
        """The outcome in a sentence."""
        low, high = self.change.interval or (float("nan"), float("nan"))
        interval = f"(95 % interval {low:+.1f} to {high:+.1f})"
        if self.helped:
            told = f"better by {self.change.size:.1f} NDCG@10 on held-out passages {interval}"
        elif self.step == 0 or self.share == 0:
            told = (
                f"does not help here: no trained weights beat {self.base} on the dev queries; it is returned"
            )
        else:
            word = "cannot be told to help" if high > 0 else "does not help"
            told = (
                f"{word} here: {self.change.size:+.1f} NDCG@10 on held-out passages {interval}"
                f"{self._doubt()}; {self.base} is returned"
            )
        if self.general is None:
            return told
        before, after = self.general
        return f"{told}; general pairs {before:.1f} -> {after:.1f}"

    def _doubt(self) -> str:
        """The kinds of queries whose gain may be chance, where the average is none."""
        if not self.change.real or self.change.size <= 0:
            return ""
        doubts = [f"{one.size:+.1f} on {one.name}" for one in doubtful(self.comparison)]
        return f", of which chance may be {', '.join(doubts)}" if doubts else ""

    def values(self) -> dict[str, Any]:
        """Plain values, for the record."""
        return {
            "helped": self.helped,
            "verdict": self.verdict(),
            "share": self.share,
            "general": self.general,
            "test": [
                {
                    "set": one.name,
                    "queries": one.items,
                    "base": one.scores[0],
                    "adapted": one.scores[1],
                    "interval": one.interval,
                    "p": one.p,
                }
                for one in (*self.comparison.sets, self.change)
            ],
        }
