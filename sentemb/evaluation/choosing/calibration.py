"""Predict differences on real queries from scores on generated ones.

The model was fitted on collections that have relevance judgments. For the systems of one collection

    NDCG@10 on real queries = a + X b + e,   e ~ N(0, S)

where X holds the log-odds of the score on each kind of generated query, and the family of the system; a is
the collection's own level, which no comparison needs. S is what the collection adds: a part of each system's
own, a part of each family's, a part that grows with the score, and a part that grows with how differently two
systems answer the same generated queries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.evaluation.statistics import TARGET

Double = npt.NDArray[np.float64]

FILE = "calibration.json"
"""What `benchmarks/verdicts.py` fits."""
FAMILIES = ("keyword", "hybrid", "static", "transformer")
FITTED_QUERIES = 150
"""Generated queries of each kind that the fit had for a collection."""
CONFIDENCE = 0.8
"""Of the prediction intervals."""
CALLED = 0.985
"""Probability of the sign from which two systems are said to differ; chosen leave-one-corpus-out."""
_PRIOR_QUERIES = 6  # that the spread of the generated queries counts as
_NORMAL = NormalDist()
_SHOWN = _NORMAL.inv_cdf(CALLED) + _NORMAL.inv_cdf(TARGET)  # deviations of a difference that is likely called


class Evidence(NamedTuple):
    """Answers of some systems to the generated queries of one collection, by kind of query."""

    families: Sequence[str]  # of each system, of `FAMILIES`
    means: Mapping[str, Double]  # mean NDCG@10 x 100 of each system, shape (systems,)
    spreads: Mapping[str, Double]  # covariance of the scores over the queries, shape (systems, systems)
    queries: Mapping[
        str, float
    ]  # number of queries; with weights, of as many equal ones as have the same noise

    @classmethod
    def of(
        cls,
        families: Sequence[str],
        scores: Mapping[str, Double],
        weights: Mapping[str, Double] | None = None,
    ) -> Evidence:
        """Return the evidence of scores of shape (systems, queries), by kind; queries may have weights."""
        shares = weights or {kind: np.full(own.shape[1], 1 / own.shape[1]) for kind, own in scores.items()}
        means = {kind: own @ shares[kind] for kind, own in scores.items()}
        spreads = {
            kind: np.atleast_2d(np.cov(own, aweights=shares[kind], ddof=0)) for kind, own in scores.items()
        }
        return cls(families, means, spreads, {kind: 1 / float(own @ own) for kind, own in shares.items()})


@dataclass(frozen=True)
class Estimate:
    """A difference on real queries, in points of NDCG@10 x 100."""

    mean: float  # the most likely value
    deviation: float  # its standard deviation

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the prediction interval."""
        reach = _NORMAL.inv_cdf((1 + confidence) / 2) * self.deviation
        return self.mean - reach, self.mean + reach

    @property
    def is_called(self) -> bool:
        """True if the sign is sure enough to be reported."""
        return abs(self.mean) > _NORMAL.inv_cdf(CALLED) * self.deviation

    @property
    def chance(self) -> float:
        """The probability that the difference is positive."""
        return _NORMAL.cdf(self.mean / max(self.deviation, 1e-9))

    @property
    def detectable(self) -> float:
        """The smallest true difference that evidence like this calls with 80 % power."""
        return _SHOWN * self.deviation

    def updated(self, differences: Double, spread: float) -> Estimate:
        """Return the mean with the differences on queries with qrels, each weighted by its precision.

        `spread` is the variance of such differences on generated queries, which steadies that of a few with
        qrels.
        """
        count = len(differences)
        own = float(np.var(differences)) * count + _PRIOR_QUERIES * spread
        variance = max(own / (count - 1 + _PRIOR_QUERIES), 1e-6) / count
        prior = max(self.deviation**2, 1e-9)
        mean = (self.mean / prior + float(differences.mean()) / variance) / (1 / prior + 1 / variance)
        return Estimate(mean, (1 / (1 / prior + 1 / variance)) ** 0.5)

    def needed(self, effect: float, spread: float) -> int:
        """Return how many queries with qrels, with this estimate, call a true difference with 80 % power."""
        precision = (_SHOWN / max(abs(effect), 1e-3)) ** 2 - 1 / max(self.deviation**2, 1e-9)
        return max(0, math.ceil(precision * spread))


@dataclass(frozen=True)
class Reliability:
    """Reliability of predictions on collections that took no part in the fit, each left out in turn."""

    corpora: int  # languages of one text count as one
    pairs: int  # of systems
    tau: float  # Kendall's tau of the predicted and the measured order, the mean over the collections
    coverage: float  # share of the measured differences in their 80 % prediction interval
    called: float  # share of the pairs that were said to differ
    wrong: float  # share of these with the wrong sign
    error: float  # root mean square error of a difference, in points

    def sentence(self) -> str:
        """Return the reliability in a sentence."""
        return (
            f"on {self.corpora} other collections with relevance judgments, each left out of the fit "
            f"in turn, {100 * self.coverage:.0f} % of {self.pairs:,} measured differences lay in their 80 % "
            f"interval; {100 * self.called:.0f} % of the differences were called, of which "
            f"{100 * self.wrong:.1f} % had the wrong sign; Kendall's tau was {self.tau:.2f}"
        )


@dataclass(frozen=True)
class Predictor:
    """A fitted model for some kinds of generated queries."""

    kinds: tuple[str, ...]  # that it needs
    log: bool  # for queries that are weighted by a query log
    coefficients: Double  # for the log-odds of each kind, then for each family but the last of `FAMILIES`
    uncertainty: Double  # their covariance
    variances: tuple[float, float, float, float]  # own part, disagreement, score, family: see above
    reliability: Reliability  # leave-one-corpus-out

    def predict(self, evidence: Evidence) -> Prediction:
        """Predict the systems' scores on real queries, up to a constant."""
        design = design_of(self.kinds, evidence)
        covariance = residual_covariance(self.kinds, evidence, self.variances)
        covariance = covariance + design @ self.uncertainty @ design.T
        covariance = covariance + sampling_covariance(self.kinds, self.coefficients, evidence)
        spread = np.mean([evidence.spreads[kind] for kind in self.kinds], axis=0)
        return Prediction(design @ self.coefficients, covariance, spread)


@dataclass(frozen=True)
class Prediction:
    """Predicted scores on real queries, of which only differences have a meaning."""

    mean: Double  # for each system
    covariance: Double  # of these, shape (systems, systems)
    spread: Double  # covariance of the systems' scores over generated queries

    def difference(self, first: int, second: int) -> Estimate:
        """Return the estimate of the first system's score minus the second's."""
        variance = _of_difference(self.covariance, first, second)
        return Estimate(float(self.mean[first] - self.mean[second]), variance**0.5)

    def query_variance(self, first: int, second: int) -> float:
        """Return how much the difference of two systems varies from one generated query to another."""
        return _of_difference(self.spread, first, second)


def log_odds(scores: npt.ArrayLike) -> Double:
    """Return the log-odds of scores from 0 to 100, in units that are points of score near 50."""
    values = np.asarray(scores, dtype=np.float64)
    return 25 * np.log((values + 1) / (101 - values))


def design_of(kinds: Sequence[str], evidence: Evidence) -> Double:
    """Return the columns that coefficients belong to, shape (systems, kinds + families - 1)."""
    scores = [log_odds(evidence.means[kind]) for kind in kinds]
    families = [np.array([family == name for family in evidence.families]) for name in FAMILIES[:-1]]
    return np.array([*scores, *families], dtype=np.float64).T


def residual_covariance(kinds: Sequence[str], evidence: Evidence, variances: Sequence[float]) -> Double:
    """Return the covariance of what a collection adds to the systems' scores."""
    own, disagreement, size, family = variances
    means = np.mean([log_odds(evidence.means[kind]) for kind in kinds], axis=0)
    means = means - means.mean()
    answers = np.mean([evidence.spreads[kind] for kind in kinds], axis=0)
    same = np.array([[one == other for other in evidence.families] for one in evidence.families], dtype=float)
    whole: Double = (
        own * np.eye(len(means))
        + disagreement / 1000 * answers
        + size / 100 * np.outer(means, means)
        + family * same
    )
    return whole


def sampling_covariance(kinds: Sequence[str], coefficients: Double, evidence: Evidence) -> Double:
    """Return the noise of fewer generated queries than the fit had, which its residuals already hold."""
    systems = len(evidence.families)
    whole = np.zeros((systems, systems))
    for kind, coefficient in zip(kinds, coefficients, strict=False):
        means = evidence.means[kind]
        slopes = coefficient * 25 * (1 / (means + 1) + 1 / (101 - means))
        more = max(0.0, 1 / evidence.queries[kind] - 1 / FITTED_QUERIES)
        whole += more * np.outer(slopes, slopes) * evidence.spreads[kind]
    return whole


def predictor_for(kinds: Sequence[str], *, log: bool = False) -> Predictor:
    """Return the predictor that uses the most of the available kinds, which include `crop` and `quote`."""
    return next(one for one in predictors() if {*one.kinds} <= {*kinds} and one.log == log)


@cache
def predictors() -> tuple[Predictor, ...]:
    """Return all fitted predictors, the one with the most kinds first."""
    text = resources.files(__package__ or "").joinpath(FILE).read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["predictors"]
    read = (
        Predictor(
            kinds=tuple(one["kinds"]),
            log=one["log"],
            coefficients=np.array(one["coefficients"]),
            uncertainty=np.array(one["uncertainty"]),
            variances=tuple(one["variances"]),
            reliability=Reliability(**one["reliability"]),
        )
        for one in found
    )
    return tuple(sorted(read, key=lambda one: -len(one.kinds)))


def _of_difference(covariance: Double, first: int, second: int) -> float:
    both = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    return max(float(both), 0.0)
