"""How an adaptation ends: better, or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.adaptation.general import LOSS
from sentemb.data.retrieval import RetrievalSet
from sentemb.evaluation.comparison import Comparison, Difference, compare
from sentemb.evaluation.schema import Record
from sentemb.evaluation.systems import system_of, with_clusters


def doubtful(comparison: Comparison) -> list[Difference]:
    """The kinds of queries without a significant gain.

    Training pairs resemble some kinds more than others, so that a gain in these alone may be theirs only.
    """
    return [one for one in comparison.sets if not _better(one)]


def _better(one: Difference) -> bool:
    return one.real and one.size > 0


class Choice(NamedTuple):
    """What the test queries choose.

    Attributes:
        comparison: With the base as shipped; where nothing helps, of what would have been chosen.
        helped: Whether anything is better than the base.
        trained: Whether the comparison is of trained weights, not of whitening alone.
    """

    comparison: Comparison
    helped: bool
    trained: bool


def choose(
    shipped: Record,
    whitened: Record | None,
    trained: Record | None,
    tasks: Sequence[RetrievalSet],
    *,
    raw: bool = False,
) -> Choice:
    """Choose between the base as shipped, its whitening, and what training made of that.

    Training has seen such queries: every kind of them must gain. Whitening has seen documents alone: the mean
    over the kinds must gain. Where it does, training must gain significantly on the mean over that, and lose
    on no kind. Of a raw transformer, which training alone makes a sentence encoder, a higher mean is enough.

    Args:
        shipped: The base on the test queries.
        whitened: The whitened base, if there is one.
        trained: The trained weights, if any are better on the dev queries.
        tasks: The test queries, of which several may be about one document.
        raw: Whether the base is a raw transformer.
    """
    whole = _compared(shipped, trained or whitened or shipped, tasks)
    gain = None if whitened is None else _compared(shipped, whitened, tasks)
    alone = gain if gain is not None and _better(gain.headline) else None
    start = None if alone is None else whitened
    if (
        trained is not None
        and not doubtful(whole)
        and (start is None or _goes_on(start, trained, tasks, raw=raw))
    ):
        return Choice(whole, helped=True, trained=True)
    if alone is not None:
        return Choice(alone, helped=True, trained=False)
    return Choice(whole, helped=False, trained=trained is not None)


def _goes_on(start: Record, trained: Record, tasks: Sequence[RetrievalSet], *, raw: bool) -> bool:
    """Whether training has the higher mean; unless the base is raw, significantly and with no kind lost."""
    found = _compared(start, trained, tasks)
    if raw:
        return found.headline.size > 0
    return _better(found.headline) and all(one.size >= 0 for one in found.sets)


def _compared(first: Record, second: Record, tasks: Sequence[RetrievalSet]) -> Comparison:
    named = {"base": first, "adapted": second}
    systems = (system_of([one.model_copy(update={"model": name})], name) for name, one in named.items())
    return compare(*(with_clusters(system, tasks) for system in systems))


@dataclass(frozen=True)
class Adapted:
    """A finished adaptation.

    Attributes:
        output: The folder; it loads as a `SentenceTransformer`.
        base: The name of the base.
        helped: Whether held-out queries gain significantly; if not, the folder holds the base as it was.
        comparison: The changed encoder against the base, by NDCG@10 on held-out queries.
        step: The step whose weights were taken.
        share: How much of what was learned was kept: 1 is the trained weights, 0 those before training.
        ridge: Of the soft whitening before training; None where the base was not whitened.
        general: By task, what is not of the documents before and after; None where not watched, and where
            nothing has changed.
        lost_general: Whether something gained on the dev queries that lost too much there.
    """

    output: Path
    base: str
    helped: bool
    comparison: Comparison
    step: int
    share: float
    ridge: float | None = None
    general: Mapping[str, tuple[float, float]] | None = None
    lost_general: bool = False

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
            told += "" if self.share else ", by whitening alone"
        elif self.share == 0 and self.ridge is None:
            cost = f" without losing more than {LOSS:g} point on other tasks" if self.lost_general else ""
            told = f"does not help here: nothing beats {self.base} on the dev queries{cost}; it is returned"
        else:
            word = "cannot be told to help" if high > 0 else "does not help"
            told = (
                f"{word} here: {self.change.size:+.1f} NDCG@10 on held-out passages {interval}"
                f"{self._doubt()}; {self.base} is returned"
            )
        if self.general is None:
            return told
        others = (f"{name} {before:.1f} -> {after:.1f}" for name, (before, after) in self.general.items())
        return f"{told}; {', '.join(others)}"

    def _doubt(self) -> str:
        """What speaks against a gain: its p-value, or the kinds of queries whose gain may be chance."""
        if self.change.size <= 0:
            return ""
        if not self.change.real:
            return f", p {self.change.p:.2f}"
        doubts = [f"{one.size:+.1f} on {one.name}" for one in doubtful(self.comparison)]
        return f", of which chance may be {', '.join(doubts)}" if doubts else ""

    def values(self) -> dict[str, Any]:
        """Plain values, for the record."""
        return {
            "helped": self.helped,
            "verdict": self.verdict(),
            "share": self.share,
            "ridge": self.ridge,
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
