"""What a choice among systems found, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sentemb.evaluation.choosing.costs import Cost
from sentemb.evaluation.choosing.leaks import LeakReport
from sentemb.evaluation.choosing.questions import Basis
from sentemb.evaluation.choosing.ranking import Pair
from sentemb.evaluation.choosing.trust import Trust
from sentemb.evaluation.schema import DataSet, Environment

_MEASURES = {"ndcg@10": "NDCG@10", "spearman": "Spearman x 100"}
_FASTER = 1.05  # times; by less, speeds differ from one measurement to the next


@dataclass(frozen=True)
class Candidate:
    """A system with its quality and its costs.

    Attributes:
        name: What tables call it.
        given: What it was called by the user.
        place: From 1; those that cannot be told apart from the first of a place share it.
        score: The mean over the sets, x 100.
        interval: Of the score.
        sets: The score on each set.
        cost: Speed and size.
    """

    name: str
    given: str
    place: int
    score: float
    interval: tuple[float, float]
    sets: dict[str, float]
    cost: Cost


@dataclass(frozen=True)
class Choice:
    """Systems ranked for one's own documents.

    Attributes:
        basis: What they were asked: queries cut from the `documents`, `judged` queries, or graded `pairs`.
        measure: The metric.
        confidence: Of the intervals.
        candidates: The best first.
        pairs: Each two of them, the better first.
        datasets: What was asked, with checksums.
        documents: How many documents the caller has; 0 where pairs were given.
        trust: How far a ranking by cut queries can be trusted; None of another basis.
        leaks: Own texts in known test sets; None where they were not looked for.
        environment: Versions, machine and time.
    """

    basis: Basis
    measure: str
    confidence: float
    candidates: tuple[Candidate, ...]
    pairs: tuple[Pair, ...]
    datasets: tuple[DataSet, ...]
    documents: int
    trust: Trust | None
    leaks: LeakReport | None
    environment: Environment

    @property
    def best(self) -> Candidate:
        """The first."""
        return self.candidates[0]

    def verdict(self) -> str:
        """Which to take, in a sentence."""
        best = self.best
        equal = [one for one in self.candidates[1:] if one.place == best.place]
        if len(self.candidates) == 1:
            return f"{best.name} alone: {self._scored(best)}"
        if not equal:
            return f"take {best.name}: {self._beats(self.candidates[1])}"
        named = ", ".join(one.name for one in equal)
        own = best.cost.texts_per_second
        if own is None:
            return f"take {best.name}: {named} cannot be told apart from it"
        fast = max([best, *equal], key=lambda one: one.cost.texts_per_second or 0.0)
        ratio = (fast.cost.texts_per_second or 0.0) / own
        if ratio < _FASTER:
            return f"take {best.name}: {named} cannot be told apart from it, and none of them is faster"
        times = f"{ratio:.0f} times as fast" if ratio >= 2 else f"{100 * (ratio - 1):.0f} % faster"
        return (
            f"take {best.name}, which scores highest, or {fast.name}, which is {times}: "
            f"{named} cannot be told apart from {best.name}"
        )

    def to_json(self) -> dict[str, Any]:
        """All numbers, as JSON values."""
        return {
            "basis": self.basis,
            "measure": self.measure,
            "confidence": self.confidence,
            "verdict": self.verdict(),
            "candidates": [asdict(one) for one in self.candidates],
            "pairs": [asdict(one) | {"real": one.real} for one in self.pairs],
            "documents": self.documents,
            "datasets": [one.model_dump(mode="json") for one in self.datasets],
            "trust": None if self.trust is None else asdict(self.trust),
            "leaks": None if self.leaks is None else asdict(self.leaks),
            "environment": self.environment.model_dump(mode="json"),
        }

    def _scored(self, one: Candidate) -> str:
        low, high = one.interval
        return f"{one.score:.1f} {self._measure()} ({self._level()} {low:.1f} to {high:.1f})"

    def _beats(self, other: Candidate) -> str:
        best = self.best.name
        pair = next(pair for pair in self.pairs if (pair.better, pair.worse) == (best, other.name))
        found = f"better than {other.name} by {-pair.difference.size:.1f} {self._measure()}"
        if pair.difference.interval is None:
            return found
        low, high = pair.difference.interval
        return f"{found} ({self._level()} {-high:.1f} to {-low:.1f})"

    def _measure(self) -> str:
        return _MEASURES.get(self.measure, self.measure)

    def _level(self) -> str:
        return f"{100 * self.confidence:g} % interval"
