"""Do the verdicts of `sentemb adapt` hold on collections that took no part in them?

    python benchmarks/adapt_verdicts.py measure --data-dir DATA --model all-MiniLM-L6-v2
    python benchmarks/adapt_verdicts.py fit --output benchmarks/results/adapt_verdicts.json \
        --calibration sentemb/adaptation/calibration.json

`measure` adapts static-mini, bert-mini and the model to every collection of `pool.py`, and scores each share
of the trained weights on the generated queries, which `adapt` sees, and on the judged queries, which it does
not see. It appends each run to results/adapt_runs.jsonl, so that runs of several machines add up. Those in
the file are not repeated, and several processes may write to it. `fit` fits the model of
`sentemb.adaptation.gain` and reports how its rule holds leave-one-corpus-out: the runs of each collection are
predicted by a model that was fitted on the others. Languages of one text are left out together, and count as
one.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
import pool
import torch
from numpy.typing import NDArray
from scipy import optimize

from sentemb._files import write_text
from sentemb.adaptation.config import FINISHED, RAW, SHARES, STATIC
from sentemb.adaptation.gain import Calibration, Change, Reliability, change_of, select
from sentemb.adaptation.held_out import MEASURES, NDCG, RECALL, Scores, scores_on
from sentemb.adaptation.run import AdaptSession, configured, weights_of
from sentemb.data.documents import Document
from sentemb.data.retrieval import RetrievalSet
from sentemb.evaluation.environment import hardware
from sentemb.training.outcome import Run
from sentemb.training.progress import without_upstream_bars

Double = NDArray[np.float64]
RUNS = Path(__file__).with_name("results") / "adapt_runs.jsonl"
"""The runs that were measured so far."""
REAL = "real"
"""The judged queries, as a kind."""
BASE = 0.0
"""The share that is the base."""


class _Measured(Exception):
    """The candidates are scored."""


class MeasuringSession(AdaptSession):
    """Score each share of the trained weights on judged queries too."""

    judged: RetrievalSet
    found: dict[float, Scores]

    def finish(self, kept: Run) -> Run:
        """Score the shares."""
        trained = weights_of(self.model)
        self.found = {}
        for share in (BASE, *SHARES[self.kind]):
            self.take(trained, share)
            scores = dict(scores_on(self.model, self.parts.queries))
            real = scores_on(self.model, [self.judged])
            scores |= {(REAL, measure): real[self.judged.name, measure] for measure in MEASURES}
            self.found[share] = scores
        raise _Measured


def measure(arguments: argparse.Namespace) -> None:
    """Measure every run that the file does not have."""
    bases = arguments.bases or ["static-mini", "bert-mini", arguments.model]
    for seed in arguments.seeds:
        for name in arguments.sets or pool.NAMES:
            known = {(run["set"], run["base"], run["seed"]) for run in read(arguments.runs)}
            missing = [base for base in bases if (name, Path(base).name, seed) not in known]
            if missing:
                data, documents = pool.load(name, arguments.data_dir, arguments.documents, arguments.judged)
            for base in missing:
                began = time.perf_counter()
                run = measured(name, data, documents, base, seed)
                with arguments.runs.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(run) + "\n")
                changes = {share: values["change"][NDCG] for share, values in run["shares"].items()}
                print(
                    f"{name} {run['base']} seed {seed}: {changes} ({time.perf_counter() - began:.0f} s)",
                    flush=True,
                )


def read(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a file; none if it does not exist."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def measured(
    name: str, data: RetrievalSet, documents: Sequence[Document], base: str, seed: int
) -> dict[str, Any]:
    """Adapt a base to a collection, and score each share of the trained weights."""
    with tempfile.TemporaryDirectory() as folder, without_upstream_bars():
        config, kind = configured(documents, base, Path(folder, "out"), {"seeds": (seed,)})
        session = MeasuringSession(config, documents, kind=kind, progress=None)
        session.judged = data
        with suppress(_Measured):
            session.run(resume=False)
    about = {"set": name, "base": Path(base).name, "kind": kind, "seed": seed, "documents": len(documents)}
    return {**about, "processor": processor(), **run_of(session.found, kind)}


def processor() -> str:
    """Return what computed."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else str(hardware()["processor"])


def run_of(found: Mapping[float, Scores], kind: str) -> dict[str, Any]:
    """Return what `fit` reads, and the means of all other queries for whoever tries other features."""
    base = found[BASE]
    shares = {}
    for share in SHARES[kind]:
        apart = {measure: found[share][REAL, measure] - base[REAL, measure] for measure in MEASURES}
        change = change_of(base, found[share], share=share, kind=kind)
        shares[f"{share:g}"] = {
            "features": None if change is None else change.features.round(4).tolist(),
            "noise": None if change is None else change.noise.round(5).tolist(),
            "change": {measure: round(float(own.mean()), 3) for measure, own in apart.items()},
            "error": round(float(apart[NDCG].std(ddof=1)) / len(apart[NDCG]) ** 0.5, 3),
            "scores": _means(found[share]),
        }
    return {"base_scores": _means(base), "shares": shares}


def _means(scores: Scores) -> dict[str, float]:
    return {f"{queries} {measure}": round(float(own.mean()), 2) for (queries, measure), own in scores.items()}


def trials(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row for each share of the weights of each run; those of a corpus have one weight in all.

    `ndcg` and `recall` are changes on the judged queries, `error` is the standard error of that of NDCG@10,
    `before` the NDCG@10 of the base. A corpus is a text, of which a collection may be one language.
    """
    rows = [
        {
            **{name: run[name] for name in ("set", "base", "kind", "seed")},
            "before": run["base_scores"][f"{REAL} {NDCG}"],
            "share": float(share),
            "change": Change(np.array(values["features"]), float(share), np.array(values["noise"])),
            "ndcg": values["change"][NDCG],
            "recall": values["change"][RECALL],
            "error": values["error"],
            "corpus": run["set"].split("/")[0],
        }
        for run in runs
        for share, values in run["shares"].items()
        if values["features"] is not None
    ]
    found = pd.DataFrame(rows)
    return found.assign(weight=1 / found.groupby(["corpus", "base", "share"])["set"].transform("size"))


# Prior of the coefficients, and of the parts of the spread with its weight.
_RIDGE, _SPREAD, _FIRM = 0.5, np.array([4.0, 4.0, 4.0, 0.3]), 0.05
# What is assumed of the spread while coefficients are fitted: per share, and per point of recall.
_PER_SHARE, _PER_POINT = 3.0, 0.3


def features_of(some: pd.DataFrame) -> Double:
    """Return the features of trials, shape (trials, features)."""
    return np.array([one.features for one in some["change"]])


def coefficients(some: pd.DataFrame, target: str) -> Double:
    """Fit by least squares, each trial weighted by how well it can be known."""
    features, share, error = features_of(some), some["share"].to_numpy(), some["error"].to_numpy()
    variances = (_PER_SHARE * share) ** 2 + (_PER_POINT * features[:, 0]) ** 2 + error**2
    scale = np.sqrt(some["weight"].to_numpy() / variances)
    left, right = features * scale[:, None], some[target].to_numpy() * scale
    return np.asarray(np.linalg.solve(left.T @ left + _RIDGE * np.eye(left.shape[1]), left.T @ right))


def fitted(some: pd.DataFrame, reliability: Mapping[str, Reliability]) -> Calibration:
    """Fit the coefficients, and by maximum likelihood the spread of predictions of left-out trials.

    The spread has a part for each kind, and one relative to the prediction.
    """
    predicted = np.zeros(len(some))
    for corpus in {*some["corpus"]}:
        own = (some["corpus"] == corpus).to_numpy()
        without = coefficients(some[~own], "ndcg")
        predicted[own] = [one @ without for one in features_of(some[own])]
    truth, error, share = (some[name].to_numpy() for name in ("ndcg", "error", "share"))
    kinds = np.array([(FINISHED, STATIC, RAW).index(kind) for kind in some["kind"]])

    def loss(logs: Double) -> float:
        parts = np.exp(logs)
        variance = (parts[kinds] * share) ** 2 + (parts[3] * predicted) ** 2 + error**2
        own = 0.5 * np.log(variance) + 0.5 * (truth - predicted) ** 2 / variance
        prior = _FIRM * float(((logs - np.log(_SPREAD)) ** 2).sum())
        return float(np.average(own, weights=some["weight"].to_numpy())) + prior

    spread = np.exp(optimize.minimize(loss, np.log(_SPREAD), method="BFGS").x)
    return Calibration(coefficients(some, "ndcg"), coefficients(some, "recall"), spread, reliability)


def predictions(some: pd.DataFrame) -> pd.DataFrame:
    """Predict all trials, those of each corpus by a model that was fitted on the others."""
    parts = []
    for corpus in dict.fromkeys(some["corpus"]):
        model = fitted(some[some["corpus"] != corpus], {})
        own = some[some["corpus"] == corpus]
        gains = [model.predict(one) for one in own["change"]]
        low, high = zip(*(gain.ndcg.interval() for gain in gains), strict=True)
        claimed = [gain.ndcg.mean for gain in gains]
        parts.append(own.assign(gain=gains, claimed=claimed, low=low, high=high))
    return pd.concat(parts)


_NUMBERS = ["share", "claimed", "low", "high", "ndcg", "error", "recall"]


def verdicts(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return what `adapt` would return for each run, and what that is worth; a share of 0 is no model."""
    found = []
    for _, run in predicted.groupby(["set", "base", "seed"], sort=False):
        place = select([*run["gain"]], run["kind"].iloc[0])
        first = run[["set", "base", "seed", "before", "weight"]].iloc[0].to_dict()
        numbers = dict.fromkeys(_NUMBERS, 0.0) if place is None else run[_NUMBERS].iloc[place].to_dict()
        found.append(first | numbers)
    return pd.DataFrame(found)[["set", "base", "seed", "before", *_NUMBERS, "weight"]]


def summary(some: pd.DataFrame, predicted: pd.DataFrame) -> dict[str, Any]:
    """Return what the bars ask; shares and means count each corpus of a base once."""
    returned = some[some["share"] > 0]

    def mean(values: pd.Series, of: pd.DataFrame = returned) -> float:
        return round(float(np.average(values, weights=of["weight"])), 3) if len(of) else 0.0

    def listed(rows: pd.DataFrame) -> list[list[Any]]:
        numbers = rows[["claimed", "ndcg", "recall"]].to_numpy().tolist()
        names = zip(rows["set"], rows["base"], rows["seed"].tolist(), strict=True)
        return [
            [*name, *(round(value, 1) for value in own)] for name, own in zip(names, numbers, strict=True)
        ]

    return {
        "runs": len(some),
        "returned": len(returned),
        "positive": mean(returned["ndcg"] > 0),
        "claimed": mean(returned["claimed"]),
        "measured": mean(returned["ndcg"]),
        "recall": mean(returned["recall"]),
        "measured over all runs": mean(some["ndcg"], some),
        "coverage": mean(predicted["ndcg"].between(predicted["low"], predicted["high"]), predicted),
        "not positive": listed(returned[returned["ndcg"] <= 0]),
        "significantly worse": listed(returned[returned["ndcg"] < -1.96 * returned["error"]]),
        "recall lower by more than 2": listed(returned[returned["recall"] < -2]),
    }


def report(arguments: argparse.Namespace) -> None:
    """Fit, and write the model with its reliability."""
    some = trials(read(arguments.runs))
    predicted = predictions(some)
    found = verdicts(predicted)
    bases = dict(zip(some["base"], some["kind"], strict=True))
    whole = {"all": summary(found, predicted)}
    for base in sorted(bases):
        whole[base] = summary(found[found["base"] == base], predicted[predicted["base"] == base])
    for base, values in whole.items():
        print(base, json.dumps(values), flush=True)
    reliability = {
        kind: Reliability(
            bases=(base,),
            corpora=some[some["base"] == base]["corpus"].nunique(),
            **{name: whole[base][name] for name in Reliability._fields if name in whole[base]},
        )
        for base, kind in bases.items()
    }
    model = fitted(some, reliability)
    if arguments.calibration is not None:
        values = {
            "by": "benchmarks/adapt_verdicts.py",
            "ndcg": model.ndcg.round(3).tolist(),
            "recall": model.recall.round(3).tolist(),
            "spread": [round(value, 3) for value in model.spread],
            "reliability": {kind: one._asdict() for kind, one in reliability.items()},
        }
        write_text(arguments.calibration, json.dumps(values, indent=1) + "\n")
    rows = [
        {key: value if isinstance(value, str) else round(value, 2) for key, value in one.items()}
        for one in found.to_dict("records")
    ]
    harness.save(arguments.output, summary=whole, runs=rows)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    some = {"data_dir": Path, "model": str, "bases": [], "sets": [], "seeds": [1, 2, 3], "runs": RUNS}
    most = {"documents": 5000, "judged": 400}  # of a collection
    written = {"runs": RUNS, "calibration": (Path, None), "output": (Path, None)}
    harness.run(__doc__, {"measure": (measure, {**some, **most}), "fit": (report, written)})
