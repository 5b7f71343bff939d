"""Predict the change on real queries from the change on generated ones.

The model was fitted on collections that have queries with relevance judgments, each adapted by `adapt`:

    change of NDCG@10 on real queries = x b + e,   e ~ N(0, (s_kind share)^2 + (r x b)^2)

where x holds the changes of recall@100 and of NDCG@10, each the mean over the kinds `neighbors` and `topic`,
and the share of the trained weights, once for each kind of base and once more for collections of single
sentences. The change of recall@100 has coefficients of its own. The other kinds of generated queries take no
part: training pairs resemble them, so that they gain whether real queries do or not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb.adaptation.config import FINISHED, RAW, STATIC
from sentemb.adaptation.held_out import NDCG, RECALL, Scores
from sentemb.data.generated_queries import NEIGHBORS, SENTENCE, TOPIC
from sentemb.evaluation.choosing.calibration import FITTED_QUERIES, Estimate

FILE = "calibration.json"
"""What `benchmarks/adapt_verdicts.py` fits."""
PREDICTIVE = (NEIGHBORS, TOPIC)
"""Kinds of generated queries that predict real ones."""
CALLED = 0.86
"""A model is returned if some share of the trained weights has this chance of a gain. Chosen
leave-one-corpus-out."""
KEPT = {FINISHED: CALLED, STATIC: 0.8, RAW: 0.8}
"""Of the shares with this chance, the one with the largest expected gain is returned. A finished encoder has
more to lose."""
RECALL_LOSS = 0.5
"""Points of recall@100 that may be lost, as predicted."""


class Change(NamedTuple):
    """The change of the scores on generated queries by some share of the trained weights.

    The noise is the covariance of the first two features for having fewer generated queries than the fit had;
    the fit's errors hold the rest.
    """

    features: npt.NDArray[np.float64]  # what the coefficients belong to, (6,)
    share: float
    noise: npt.NDArray[np.float64]  # (2, 2)


class Gain(NamedTuple):
    """The predicted change on real queries, in points."""

    ndcg: Estimate  # of NDCG@10
    recall: float  # of recall@100
    smallest: float  # the smallest change of NDCG@10 that this evidence could have called


class Reliability(NamedTuple):
    """Results of the rule for bases of one kind on collections left out of the fit, one at a time."""

    bases: tuple[str, ...]
    corpora: int  # languages of one text count as one
    runs: int  # adaptations
    returned: int  # of those, how many returned a model
    positive: float  # share of the returned models with a higher NDCG@10 on real queries
    claimed: float  # mean predicted gain of the returned models
    measured: float  # their mean gain
    coverage: float  # share of the measured changes in their 80 % interval

    def sentence(self) -> str:
        """Return the reliability in a sentence."""
        return (
            f"of {self.runs} adaptations of {' and '.join(self.bases)} to {self.corpora} other collections "
            f"with relevance judgments, each left out of the fit in turn, {self.returned} were called "
            f"better, and {100 * self.positive:.0f} % of these were better on real queries, by "
            f"{self.measured:+.1f} on average where {self.claimed:+.1f} was expected; "
            f"{100 * self.coverage:.0f} % of the changes lay in their 80 % interval"
        )


class Calibration(NamedTuple):
    """A fitted model.

    The spread is the standard deviation of the error for the whole trained weights of a finished encoder, a
    static model and a pretrained base, and for a predicted change of one point.
    """

    ndcg: npt.NDArray[np.float64]  # coefficients of the change of NDCG@10
    recall: npt.NDArray[np.float64]  # and of recall@100
    spread: npt.NDArray[np.float64]
    reliability: Mapping[str, Reliability]  # leave-one-corpus-out, by kind of base

    def predict(self, change: Change) -> Gain:
        """Predict the change on real queries."""
        mean = float(change.features @ self.ndcg)
        fixed, relative = float(change.features[2:5] @ self.spread[:3]), float(self.spread[3])
        sampling = float(self.ndcg[:2] @ change.noise @ self.ndcg[:2])
        variance = fixed**2 + (relative * mean) ** 2 + sampling
        estimate = Estimate(mean, math.sqrt(variance))
        reach = NormalDist().inv_cdf(CALLED)
        least = variance - (relative * mean) ** 2
        smallest = reach * math.sqrt(least / max(1 - (reach * relative) ** 2, 0.01))
        return Gain(estimate, float(change.features @ self.recall), smallest)


def change_of(before: Scores, after: Scores, *, share: float, kind: str) -> Change | None:
    """Return how scores change with a share of the trained weights; None if no kind predicts real queries."""
    kinds = [name for name in PREDICTIVE if (name, NDCG) in before]
    if not kinds:
        return None
    by_query = tuple(
        np.array([after[name, measure] - before[name, measure] for measure in (RECALL, NDCG)])
        for name in kinds
    )
    means = np.mean([own.mean(axis=1) for own in by_query], axis=0)
    single = (SENTENCE, NDCG) not in before and kind != RAW
    shares = [share * (kind == name) for name in (FINISHED, STATIC, RAW)]
    noise = sum(
        np.cov(own, bias=True) / len(kinds) ** 2 * max(0.0, 1 / own.shape[1] - 1 / FITTED_QUERIES)
        for own in by_query
    )
    return Change(np.array([*means, *shares, share * single]), share, np.asarray(noise))


def select(gains: Sequence[Gain], kind: str) -> int | None:
    """Return which gain of a base of this kind to take; None if none is sure enough."""
    able = [place for place, gain in enumerate(gains) if gain.recall >= -RECALL_LOSS]
    if not any(gains[place].ndcg.chance >= CALLED for place in able):
        return None
    return max(
        (place for place in able if gains[place].ndcg.chance >= KEPT[kind]),
        key=lambda place: gains[place].ndcg.mean,
    )


@cache
def calibration() -> Calibration:
    """Return the fitted model."""
    text = resources.files(__package__ or "").joinpath(FILE).read_text(encoding="utf-8")
    found = json.loads(text)
    return Calibration(
        np.array(found["ndcg"]),
        np.array(found["recall"]),
        np.array(found["spread"]),
        {
            kind: Reliability(**{**values, "bases": tuple(values["bases"])})
            for kind, values in found["reliability"].items()
        },
    )
