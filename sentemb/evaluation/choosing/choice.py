"""The outcome of a choice among systems: ranking, verdict and costs, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from math import comb
from statistics import median
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from sentemb.data.bm25 import bm25_weights, count_terms
from sentemb.encoding import for_role
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.evaluation.choosing.calibration import Double, Estimate, Prediction, Reliability
from sentemb.evaluation.choosing.leaks import LeakReport
from sentemb.evaluation.choosing.questions import Basis, encoder_of
from sentemb.evaluation.comparison import DRAWS, Comparison, amounts, compare_all, holm
from sentemb.evaluation.environment import time_in_turns
from sentemb.evaluation.measures import measure
from sentemb.evaluation.ranks import rank_intervals, resampled_systems, share_places
from sentemb.evaluation.retrieval.reranking import RerankSearcher
from sentemb.evaluation.retrieval.searchers import HybridSearcher, KeywordSearcher, Searcher
from sentemb.evaluation.retrieval.token_vectors import TokenSearcher
from sentemb.evaluation.schema import DataSet, Environment
from sentemb.evaluation.statistics import LEVEL
from sentemb.evaluation.systems import System

MEASURES = {"ndcg@10": "NDCG@10", "spearman": "Spearman x 100"}
"""What a metric is called in sentences."""
_WITH_WEIGHTS = (SentenceEncoder, TokenSearcher)
_FASTER = 1.05  # times; smaller differences in speed vary from one measurement to the next
_DRAWS_PER_PAIR = 100
TEXTS = 100
"""Texts that speed is measured on."""


@dataclass(frozen=True)
class Cost:
    """The cost of a system."""

    texts_per_second: float | None  # that it reads on this machine; None of a searcher of the caller's
    megabytes: float | None  # of the model's weights in memory; None without a model
    dimension: int | None  # numbers of a document: of its vector, or the mean; None without vectors
    milliseconds: float | None = None  # of a second stage per query


def costs_of(searchers: Mapping[str, Searcher], texts: Sequence[str], language: str) -> dict[str, Cost]:
    """Measure systems in turns, so that other work of the machine falls on all of them."""
    some = list(dict.fromkeys(texts))[:TEXTS]

    def read(searcher: Searcher) -> None:
        """Read texts as a system does before it can be searched."""
        if isinstance(searcher, TokenSearcher):
            searcher.vectors(some, "document")
        if (encoder := encoder_of(searcher)) is not None:
            for_role(encoder, "document").encode(some)
        if isinstance(searcher, (KeywordSearcher, HybridSearcher)):
            bm25_weights(count_terms(some, language)[0])

    firsts = {name: one.first if isinstance(one, RerankSearcher) else one for name, one in searchers.items()}
    actions = {
        name: partial(read, one)
        for name, one in firsts.items()
        if encoder_of(one) is not None or isinstance(one, (KeywordSearcher, TokenSearcher))
    }
    seconds = time_in_turns(actions, rounds=3, warm_up=1)
    costs = {}
    for name, searcher in searchers.items():
        speed = len(some) / max(median(seconds[name]), 1e-9) if name in seconds else None
        first, encoder = firsts[name], encoder_of(searcher)
        networks: list[Any] = [one.model for one in (encoder, first) if isinstance(one, _WITH_WEIGHTS)]
        dimension, milliseconds = searcher.dimension, None
        if isinstance(first, TokenSearcher):
            dimension = round(first.numbers)
        if isinstance(searcher, RerankSearcher):
            networks.append(searcher.model)
            milliseconds = float(np.mean([*searcher.milliseconds.values()]))
        tensors = {id(one): one for net in networks for one in chain(net.parameters(), net.buffers())}
        megabytes = sum(one.numel() * one.element_size() for one in tensors.values()) / 1e6
        costs[name] = Cost(speed, megabytes if networks else None, dimension, milliseconds)
    return costs


@dataclass(frozen=True)
class Pair:
    """Two systems, and whether the first is better; differences in points of the score x 100."""

    better: str  # the one that scores higher
    worse: str
    difference: float
    interval: tuple[float, float]  # a confidence interval over items, or a prediction interval
    differs: bool  # significantly
    p: float | None = None  # of the permutation test, Holm-corrected over all pairs; None of a prediction
    detectable: float | None = None  # the smallest difference shown with 80 % power; None if nothing would be
    # How many more queries with qrels, or pairs, would show this difference; None if it differs.
    missing: int | None = None


@dataclass(frozen=True)
class Ranking:
    """Systems, the best first, and each two of them, the better first."""

    names: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def places(self) -> dict[str, int]:
        """The place of each, from 1; a system shares the place of the first that it does not differ from."""
        return share_places(self.names, {(pair.better, pair.worse) for pair in self.pairs if pair.differs})

    def pair(self, one: str, other: str) -> Pair:
        """Return what is known of two systems."""
        return next(pair for pair in self.pairs if {pair.better, pair.worse} == {one, other})


@dataclass(frozen=True)
class Candidate:
    """A system with its quality and its cost."""

    name: str  # in tables
    given: str  # the name or path that the user gave
    place: int  # from 1; systems that do not differ from the first of a place share it
    ranks: tuple[int, int] | None  # interval of its rank over the items; None for generated queries
    score: float  # the mean over the sets, x 100; on generated queries it is not the score on real ones
    interval: tuple[float, float] | None  # of the score; None for generated queries
    behind: tuple[float, float, float] | None  # how far from the best, and the interval; None for the best
    sets: dict[str, float]  # the score on each set
    cost: Cost  # speed and size


@dataclass(frozen=True)
class Advice:
    """The power of the evidence on the first two systems, and how much more would decide."""

    difference: float  # of the two
    detectable: float  # the smallest true difference that is shown with 80 % power
    missing: int | None  # how many more queries or pairs would show the present one; None if it is shown
    measure: str  # the metric
    kind: str  # what is missing, such as queries with qrels

    def sentence(self) -> str:
        """Return the advice in a sentence."""
        shown = (
            f"with 80 % power, a difference of {self.detectable:.1f} {self.measure} between the first two "
            "could have been shown"
        )
        if self.missing is None:
            return shown
        present = f"if the true difference is the present {self.difference:.1f}"
        (more,) = amounts([self.missing], [self.kind], "more ")
        return f"{shown}; {present}, {more} would decide"


@dataclass(frozen=True)
class Choice:
    """Systems ranked for your own documents."""

    # What ranks them: predictions from queries generated from the `documents`, scores on `judged` queries
    # (with qrels), or on graded `pairs`.
    basis: Basis
    measure: str  # the metric
    confidence: float  # level of the intervals
    candidates: tuple[Candidate, ...]  # the best first
    pairs: tuple[Pair, ...]  # each two of them, the better first
    datasets: tuple[DataSet, ...]  # the sets of queries or pairs, with checksums
    documents: int  # number of the caller's documents; 0 where pairs were given
    judged: int  # number of queries with qrels that updated a prediction
    logged: int  # number of queries of a log that generated queries were weighted by
    skipped: tuple[str, ...]  # why kinds of queries were not generated, a phrase for each
    reliability: Reliability | None  # of such predictions on other collections; None for qrels and pairs
    advice: Advice | None  # what this and more evidence can show; None for one system
    leaks: LeakReport | None  # the user's texts in known test sets; None if they were not searched for
    environment: Environment  # versions, machine and time
    unmeasured: tuple[str, ...] = ()  # systems of kinds on which predictions have not been measured

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
        if own is None or best.cost.milliseconds is not None:
            return f"take {best.name}: {doubt}"
        # The speed of reading documents says nothing of the speed of a second stage.
        single = [one for one in equal if one.cost.milliseconds is None]
        fast = max([best, *single], key=lambda one: one.cost.texts_per_second or 0.0)
        ratio = (fast.cost.texts_per_second or 0.0) / own
        if ratio < _FASTER:
            return f"take {best.name}: {doubt}, and none of them is faster"
        times = f"{ratio:.0f} times as fast" if ratio >= 2 else f"{100 * (ratio - 1):.0f} % faster"
        return f"take {best.name}, which is first, or {fast.name}, which is {times}: {doubt}"

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as JSON values."""
        values: dict[str, Any] = TypeAdapter(Choice).dump_python(self, mode="json")
        return {"verdict": self.verdict(), **values}

    def _scored(self, one: Candidate) -> str:
        if one.interval is None:
            return f"{one.score:.1f} {self._measure} on generated queries"
        low, high = one.interval
        return f"{one.score:.1f} {self._measure} ({self._level} {low:.1f} to {high:.1f})"

    def _ahead(self, other: Candidate) -> str:
        """Return how far the best is ahead of another."""
        assert other.behind is not None  # or it is the best
        lead, low, high = other.behind
        by = f"{lead:.1f} {self._measure} ({self._level} {low:.1f} to {high:.1f})"
        predicted = ", predicted for real queries" if self.basis == "documents" else ""
        pair = next(one for one in self.pairs if {one.better, one.worse} == {self.best.name, other.name})
        if not pair.differs:
            return f"ahead of {other.name} by {by}{predicted}: cannot say"
        return f"better than {other.name} by {by}{predicted}"

    @property
    def _measure(self) -> str:
        return MEASURES.get(self.measure, self.measure)

    @property
    def _level(self) -> str:
        return f"{100 * self.confidence:g} % interval"


def set_scores(system: System) -> dict[str, float]:
    """Return the score x 100 of a system on each set."""
    return {
        name: 100 * measure(system.measure, one.predictions[0], one.gold) for name, one in system.sets.items()
    }


def rank_measured(
    systems: Sequence[System],
    *,
    draws: int = DRAWS,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Ranking:
    """Rank systems with the same sets by their mean score over queries with qrels, or graded pairs."""
    scores = {system.name: float(np.mean([*set_scores(system).values()])) for system in systems}
    # With fewer, the smallest possible p-value would not survive the correction.
    draws = max(draws, _DRAWS_PER_PAIR * comb(len(systems), 2))
    ordered = sorted(systems, key=lambda system: -scores[system.name])
    compared: list[tuple[System, Comparison]] = []
    for number, first in enumerate(ordered[:-1]):
        found = compare_all(first, ordered[number + 1 :], draws=draws, confidence=confidence, seed=seed)
        compared.extend((first, one) for one in found)
        if progress is not None:
            progress("comparing", number + 1, len(ordered) - 1)
    corrected = holm([one.headline.p for _, one in compared])
    pairs = []
    for (first, one), p in zip(compared, corrected, strict=True):
        low, high = one.headline.interval or (np.nan, np.nan)
        size = -one.headline.size
        # The level that Holm's procedure leaves to a pair if the others stay as they are.
        level = LEVEL / max(1, sum(other >= LEVEL for other in corrected) + (p < LEVEL))
        missing = None if p < LEVEL else one.headline.missing(level)[0]
        evidence = one.headline.detectable(level), missing
        pairs.append(Pair(first.name, one.second, size, (-high, -low), bool(p < LEVEL), float(p), *evidence))
    return Ranking(tuple(system.name for system in ordered), tuple(pairs))


def rank_predicted(
    names: Sequence[str], prediction: Prediction, judged: Double | None = None, *, confidence: float
) -> Ranking:
    """Rank systems by their predicted score on real queries.

    Scores of queries with qrels, NDCG@10 x 100 of shape (systems, queries), update the prediction.
    """
    estimates: dict[tuple[int, int], Estimate] = {}
    predicted: dict[tuple[int, int], Estimate] = {}
    for first, second in combinations(range(len(names)), 2):
        estimate = prediction.difference(first, second)
        predicted[first, second] = predicted[second, first] = estimate
        if judged is not None:
            apart = judged[first] - judged[second]
            estimate = estimate.updated(apart, prediction.query_variance(first, second))
        estimates[first, second] = estimate
        estimates[second, first] = Estimate(-estimate.mean, estimate.deviation)
    # The mean lead over all others orders them, whether queries with qrels moved each pair or not.
    leads = [
        sum(estimates[own, other].mean for other in range(len(names)) if other != own)
        for own in range(len(names))
    ]
    order = sorted(range(len(names)), key=lambda place: -leads[place])
    pairs = []
    for first, second in combinations(order, 2):
        if estimates[first, second].mean < 0:
            first, second = second, first  # queries with qrels say otherwise
        one = estimates[first, second]
        missing = predicted[first, second].needed(one.mean, prediction.query_variance(first, second))
        missing -= 0 if judged is None else judged.shape[1]
        pairs.append(
            Pair(
                names[first],
                names[second],
                one.mean,
                one.interval(confidence),
                one.is_called,
                detectable=one.detectable,
                missing=None if one.is_called else max(1, missing),
            )
        )
    return Ranking(tuple(names[place] for place in order), tuple(pairs))


def score_intervals(
    systems: Sequence[System], *, draws: int, confidence: float, seed: int
) -> dict[str, tuple[tuple[float, float], tuple[int, int]]]:
    """Return the intervals of each system's mean score over the sets and of its rank."""
    means = resampled_systems(systems, draws, seed)
    ends = np.nanquantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    ranks = rank_intervals(means, confidence)
    return {
        system.name: ((float(low), float(high)), own)
        for system, low, high, own in zip(systems, *ends, ranks, strict=True)
    }
