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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pool
import torch
from numpy.typing import NDArray
from scipy import optimize

from sentemb._files import write_text
from sentemb.adaptation.config import FINISHED, RAW, SHARES, STATIC
from sentemb.adaptation.gain import Calibration, Change, Gain, Reliability, change_of, select
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


@dataclass(frozen=True)
class Trial:
    """One share of the trained weights of one run."""

    set: str
    base: str
    kind: str
    seed: int
    change: Change
    ndcg: float  # change on the judged queries
    recall: float
    error: float  # standard error of the change of NDCG@10
    before: float  # NDCG@10 of the base
    weight: float = 1.0

    @property
    def corpus(self) -> str:
        """The text, of which a collection may be one language."""
        return self.set.split("/")[0]

    @property
    def run(self) -> tuple[str, str, int]:
        """What the shares of one run have in common."""
        return self.set, self.base, self.seed


def trials(runs: Sequence[dict[str, Any]]) -> list[Trial]:
    """Return all trials of some runs, each corpus of a base with the same weight in all."""
    found: list[Trial] = []
    for run in runs:
        names = (run["set"], run["base"], run["kind"], run["seed"])
        before = run["base_scores"][f"{REAL} {NDCG}"]
        for share, values in run["shares"].items():
            if values["features"] is not None:
                change = Change(np.array(values["features"]), float(share), np.array(values["noise"]))
                real = values["change"]
                found.append(Trial(*names, change, real[NDCG], real[RECALL], values["error"], before))
    counts: dict[tuple[str, str, float], int] = {}
    for one in found:
        key = (one.corpus, one.base, one.change.share)
        counts[key] = counts.get(key, 0) + 1
    return [
        Trial(**{**vars(one), "weight": 1 / counts[one.corpus, one.base, one.change.share]}) for one in found
    ]


# Prior of the coefficients, and of the parts of the spread with its weight.
_RIDGE, _SPREAD, _FIRM = 0.5, np.array([4.0, 4.0, 4.0, 0.3]), 0.05
# What is assumed of the spread while coefficients are fitted: per share, and per point of recall.
_PER_SHARE, _PER_POINT = 3.0, 0.3


def coefficients(some: Sequence[Trial], target: str) -> Double:
    """Fit by least squares, each trial weighted by how well it can be known."""
    features = np.array([one.change.features for one in some])
    variances = [
        (_PER_SHARE * one.change.share) ** 2 + (_PER_POINT * one.change.features[0]) ** 2 + one.error**2
        for one in some
    ]
    scale = np.sqrt(np.array([one.weight for one in some]) / np.array(variances))
    left, right = features * scale[:, None], np.array([getattr(one, target) for one in some]) * scale
    return np.asarray(np.linalg.solve(left.T @ left + _RIDGE * np.eye(left.shape[1]), left.T @ right))


def spread(some: Sequence[Trial], predicted: Double) -> Double:
    """Fit the spread of predictions of left-out trials by maximum likelihood: one per kind, one relative."""
    truth, error, share, weight = (
        np.array(values)
        for values in zip(*((one.ndcg, one.error, one.change.share, one.weight) for one in some), strict=True)
    )
    kinds = np.array([(FINISHED, STATIC, RAW).index(one.kind) for one in some])

    def loss(logs: Double) -> float:
        parts = np.exp(logs)
        variance = (parts[kinds] * share) ** 2 + (parts[3] * predicted) ** 2 + error**2
        own = 0.5 * np.log(variance) + 0.5 * (truth - predicted) ** 2 / variance
        return float(np.average(own, weights=weight)) + _FIRM * float(((logs - np.log(_SPREAD)) ** 2).sum())

    return np.asarray(np.exp(optimize.minimize(loss, np.log(_SPREAD), method="BFGS").x))


def left_out(some: Sequence[Trial]) -> Double:
    """Predict the trials of each corpus by coefficients that were fitted on the others."""
    found = np.zeros(len(some))
    for corpus in {one.corpus for one in some}:
        fitted = coefficients([one for one in some if one.corpus != corpus], "ndcg")
        for row, one in enumerate(some):
            if one.corpus == corpus:
                found[row] = one.change.features @ fitted
    return found


def fitted(some: Sequence[Trial], reliability: Mapping[str, Reliability]) -> Calibration:
    """Fit the whole model."""
    return Calibration(
        coefficients(some, "ndcg"), coefficients(some, "recall"), spread(some, left_out(some)), reliability
    )


def predictions(some: Sequence[Trial]) -> dict[tuple[str, str, int], list[tuple[Trial, Gain]]]:
    """Predict all runs, those of each corpus by a model that was fitted on the others."""
    runs: dict[tuple[str, str, int], list[tuple[Trial, Gain]]] = {}
    for corpus in dict.fromkeys(one.corpus for one in some):
        model = fitted([one for one in some if one.corpus != corpus], {})
        for one in some:
            if one.corpus == corpus:
                runs.setdefault(one.run, []).append((one, model.predict(one.change)))
    return runs


@dataclass(frozen=True)
class Verdict:
    """What `adapt` would return for one run, and what that is worth."""

    set: str
    base: str
    seed: int
    before: float
    share: float
    claimed: float
    low: float
    high: float
    ndcg: float
    error: float
    recall: float
    weight: float

    @property
    def returned(self) -> bool:
        """Whether a model is returned."""
        return self.share > 0


def verdicts(runs: dict[tuple[str, str, int], list[tuple[Trial, Gain]]]) -> list[Verdict]:
    """Apply the rule to each run."""
    found = []
    for (name, base, seed), candidates in runs.items():
        place = select([gain for _, gain in candidates], candidates[0][0].kind)
        weight, before = candidates[0][0].weight, candidates[0][0].before
        if place is None:
            found.append(Verdict(name, base, seed, before, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, weight))
            continue
        trial, gain = candidates[place]
        numbers = (
            trial.change.share,
            gain.ndcg.mean,
            *gain.ndcg.interval(),
            trial.ndcg,
            trial.error,
            trial.recall,
        )
        found.append(Verdict(name, base, seed, before, *numbers, weight))
    return found


def summary(some: Sequence[Verdict], runs: Sequence[tuple[Trial, Gain]]) -> dict[str, Any]:
    """Return what the bars ask; shares and means count each corpus of a base once."""
    returned = [one for one in some if one.returned]
    weights = [one.weight for one in returned]

    def mean(values: Sequence[float]) -> float:
        return round(float(np.average(values, weights=weights)), 3) if returned else 0.0

    inside = [gain.ndcg.interval()[0] <= trial.ndcg <= gain.ndcg.interval()[1] for trial, gain in runs]
    covered = np.average(inside, weights=[trial.weight for trial, _ in runs])
    return {
        "runs": len(some),
        "returned": len(returned),
        "positive": mean([one.ndcg > 0 for one in returned]),
        "claimed": mean([one.claimed for one in returned]),
        "measured": mean([one.ndcg for one in returned]),
        "recall": mean([one.recall for one in returned]),
        "measured over all runs": round(
            float(np.average([one.ndcg for one in some], weights=[one.weight for one in some])), 3
        ),
        "coverage": round(float(covered), 3),
        "not positive": [_shown(one) for one in returned if one.ndcg <= 0],
        "significantly worse": [_shown(one) for one in returned if one.ndcg < -1.96 * one.error],
        "recall lower by more than 2": [_shown(one) for one in returned if one.recall < -2],
    }


def _shown(one: Verdict) -> list[Any]:
    return [one.set, one.base, one.seed, round(one.claimed, 1), round(one.ndcg, 1), round(one.recall, 1)]


def report(arguments: argparse.Namespace) -> None:
    """Fit, and write the model with its reliability."""
    some = trials(read(arguments.runs))
    runs = predictions(some)
    found = verdicts(runs)
    bases = {one.base: one.kind for one in some}
    whole = {"all": summary(found, [pair for pairs in runs.values() for pair in pairs])}
    for base in sorted(bases):
        pairs = [pair for (_, other, _), pairs in runs.items() for pair in pairs if other == base]
        whole[base] = summary([one for one in found if one.base == base], pairs)
    for base, values in whole.items():
        print(base, json.dumps(values), flush=True)
    reliability = {
        kind: Reliability(
            bases=(base,),
            corpora=len({one.corpus for one in some if one.base == base}),
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
    if arguments.output is not None:
        rows = [
            {key: value if isinstance(value, str) else round(value, 2) for key, value in asdict(one).items()}
            for one in found
        ]
        harness.save(arguments.output, summary=whole, runs=rows)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    some = {"data_dir": Path, "model": str, "bases": [], "sets": [], "seeds": [1, 2, 3], "runs": RUNS}
    most = {"documents": 5000, "judged": 400}  # of a collection
    written = {"runs": RUNS, "calibration": (Path, None), "output": (Path, None)}
    harness.run(__doc__, {"measure": (measure, {**some, **most}), "fit": (report, written)})
