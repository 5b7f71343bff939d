"""What a choice among systems found, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sentemb.evaluation.choosing.calibration import Reliability
from sentemb.evaluation.choosing.costs import Cost
from sentemb.evaluation.choosing.leaks import LeakReport
from sentemb.evaluation.choosing.questions import Basis
from sentemb.evaluation.choosing.ranking import Pair
from sentemb.evaluation.schema import DataSet, Environment

_MEASURES = {"ndcg@10": "NDCG@10", "spearman": "Spearman x 100"}
_FASTER = 1.05  # times; smaller differences in speed vary from one measurement to the next


@dataclass(frozen=True)
class Candidate:
    """A system with its quality and its costs.

    Attributes:
        name: What tables call it.
        given: What the user called it.
        place: From 1; systems that do not differ from the first of a place share it.
        score: The mean over the sets, x 100. Of generated queries it is not the score on real ones.
        interval: Of the score; None for generated queries.
        behind: How far it is behind the best, and the interval; None for the best.
        sets: The score on each set.
        cost: Speed and size.
    """

    name: str
    given: str
    place: int
    score: float
    interval: tuple[float, float] | None
    behind: tuple[float, float, float] | None
    sets: dict[str, float]
    cost: Cost


@dataclass(frozen=True)
class Advice:
    """What more evidence would show.

    Attributes:
        detectable: The smallest difference of the first two systems that could have been called.
        judged: Judged queries, of which so many ...
        then: ... would bring that down to this.
    """

    detectable: float
    judged: int
    then: float

    def sentence(self) -> str:
        """Return the advice in a sentence."""
        return (
            f"the smallest difference that could have been called between the first two is "
            f"{self.detectable:.1f} NDCG@10; with {self.judged} queries with qrels (--judged) it would be "
            f"about {self.then:.1f}"
        )


@dataclass(frozen=True)
class Choice:
    """Systems ranked for your own documents.

    Attributes:
        basis: What ranks them: predictions from queries generated from the `documents`, scores on `judged`
            queries, or on graded `pairs`.
        measure: The metric.
        confidence: Level of the intervals.
        candidates: The best first.
        pairs: Each two of them, the better first.
        datasets: The sets of queries or pairs, with checksums.
        documents: Number of the caller's documents; 0 where pairs were given.
        judged: Number of judged queries that updated a prediction.
        logged: Number of queries of a log that generated queries were weighted by.
        skipped: Why kinds of queries were not generated, a phrase for each.
        reliability: How such predictions held on other collections; None for judged queries and pairs.
        advice: What more evidence would show; None for judged queries and pairs, and for one system.
        leaks: Own texts in known test sets; None if they were not looked for.
        environment: Versions, machine and time.
    """

    basis: Basis
    measure: str
    confidence: float
    candidates: tuple[Candidate, ...]
    pairs: tuple[Pair, ...]
    datasets: tuple[DataSet, ...]
    documents: int
    judged: int
    logged: int
    skipped: tuple[str, ...]
    reliability: Reliability | None
    advice: Advice | None
    leaks: LeakReport | None
    environment: Environment

    @property
    def best(self) -> Candidate:
        """The first."""
        return self.candidates[0]

    def verdict(self) -> str:
        """Return which system to take, in a sentence."""
        best = self.best
        equal = [one for one in self.candidates[1:] if one.place == best.place]
        if len(self.candidates) == 1:
            return f"{best.name} alone: {self._scored(best)}"
        ahead = self._ahead(self.candidates[1])
        if not equal:
            return f"take {best.name}: {ahead}"
        named = ", ".join(one.name for one in equal)
        doubt = f"{named} {'does' if len(equal) == 1 else 'do'} not differ significantly from it ({ahead})"
        own = best.cost.texts_per_second
        if own is None:
            return f"take {best.name}: {doubt}"
        fast = max([best, *equal], key=lambda one: one.cost.texts_per_second or 0.0)
        ratio = (fast.cost.texts_per_second or 0.0) / own
        if ratio < _FASTER:
            return f"take {best.name}: {doubt}, and none of them is faster"
        times = f"{ratio:.0f} times as fast" if ratio >= 2 else f"{100 * (ratio - 1):.0f} % faster"
        return f"take {best.name}, which is first, or {fast.name}, which is {times}: {doubt}"

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as JSON values."""
        return {
            "basis": self.basis,
            "measure": self.measure,
            "confidence": self.confidence,
            "verdict": self.verdict(),
            "candidates": [asdict(one) for one in self.candidates],
            "pairs": [asdict(one) for one in self.pairs],
            "documents": self.documents,
            "judged": self.judged,
            "logged": self.logged,
            "skipped": self.skipped,
            "datasets": [one.model_dump(mode="json") for one in self.datasets],
            "reliability": None if self.reliability is None else asdict(self.reliability),
            "advice": None if self.advice is None else asdict(self.advice),
            "leaks": None if self.leaks is None else asdict(self.leaks),
            "environment": self.environment.model_dump(mode="json"),
        }

    def _scored(self, one: Candidate) -> str:
        if one.interval is None:
            return f"{one.score:.1f} {self._measure()} on generated queries"
        low, high = one.interval
        return f"{one.score:.1f} {self._measure()} ({self._level()} {low:.1f} to {high:.1f})"

    def _ahead(self, other: Candidate) -> str:
        """Say how far the best is ahead of another."""
        pair = next(one for one in self.pairs if {one.better, one.worse} == {self.best.name, other.name})
        sign = 1 if pair.better == self.best.name else -1
        low, high = sorted(sign * end for end in pair.interval)
        by = f"{sign * pair.difference:.1f} {self._measure()} ({self._level()} {low:.1f} to {high:.1f})"
        predicted = ", predicted for real queries" if self.basis == "documents" else ""
        if not pair.differs:
            return f"ahead of {other.name} by {by}{predicted}: cannot say"
        return f"better than {other.name} by {by}{predicted}"

    def _measure(self) -> str:
        return _MEASURES.get(self.measure, self.measure)

    def _level(self) -> str:
        return f"{100 * self.confidence:g} % interval"
