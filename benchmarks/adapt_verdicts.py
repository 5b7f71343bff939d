"""Do the verdicts of `sentemb adapt` hold on collections that took no part in them?

    python benchmarks/adapt_verdicts.py measure --data-dir DATA --model all-MiniLM-L6-v2 --cache CACHE
    python benchmarks/adapt_verdicts.py fit --cache CACHE --output benchmarks/results/adapt_verdicts.json \
        --calibration sentemb/adaptation/calibration.json

`measure` adapts static-mini, bert-mini and the model to every collection of `pool.py`, and scores each share
of the trained weights on the generated queries, which `adapt` sees, and on the judged queries, which it does
not see.
Runs that CACHE holds are not repeated; several processes may share it. `fit` fits the model of
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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pool
from numpy.typing import NDArray
from scipy import optimize

from sentemb._files import write_json, write_text
from sentemb.adaptation.blending import weights_of
from sentemb.adaptation.config import SHARES
from sentemb.adaptation.gain import Calibration, Change, Gain, Reliability, change_of, select
from sentemb.adaptation.held_out import MEASURES, NDCG, RECALL, Scores, scores_on
from sentemb.adaptation.run import configured
from sentemb.adaptation.session import AdaptSession
from sentemb.data.documents import Document
from sentemb.data.retrieval import RetrievalSet
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.training.outcome import Run
from sentemb.training.progress import without_upstream_bars

Double = NDArray[np.float64]
REAL = "real"
"""The judged queries, in the cache."""
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
    """Measure every run that is not in the cache."""
    arguments.cache.mkdir(parents=True, exist_ok=True)
    bases = arguments.bases or ["static-mini", "bert-mini", arguments.model]
    for seed in arguments.seeds:
        for name in arguments.sets or pool.NAMES:
            places = {
                base: arguments.cache / f"{name.replace('/', '_')}--{Path(base).name}--{seed}.npz"
                for base in bases
            }
            if all(place.exists() for place in places.values()):
                continue
            data, documents = pool.load(name, arguments.data_dir, arguments.documents, arguments.judged)
            for base, place in places.items():
                if not place.exists():
                    _measure(name, data, documents, base, seed, place)


def _measure(
    name: str, data: RetrievalSet, documents: Sequence[Document], base: str, seed: int, place: Path
) -> None:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, without_upstream_bars():
        config, kind = configured(documents, base, Path(folder, "out"), {"seeds": (seed,)})
        session = MeasuringSession(config, documents, kind=kind, progress=None)
        session.judged = data
        with suppress(_Measured):
            session.run(resume=False)
    about = {"set": name, "base": Path(base).name, "kind": kind, "seed": seed, "documents": len(documents)}
    arrays = {
        f"{share:g}|{queries}|{measure}": own.astype(np.float32)
        for share, scores in session.found.items()
        for (queries, measure), own in scores.items()
    }
    temporary = place.with_suffix(".part.npz")
    np.savez_compressed(temporary, about=json.dumps(about), **arrays)  # type: ignore[arg-type]
    temporary.replace(place)
    means = {share: round(float(scores[REAL, NDCG].mean()), 1) for share, scores in session.found.items()}
    print(f"{name} {about['base']} seed {seed}: {means} ({time.perf_counter() - began:.0f} s)", flush=True)


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


def trials(cache: Path) -> list[Trial]:
    """Return all trials of the cache, each corpus of a base with the same weight in all."""
    found: list[Trial] = []
    for place in sorted(cache.glob("*.npz")):
        with np.load(place) as data:
            about = json.loads(str(data["about"]))
            scores: dict[float, dict[tuple[str, str], Double]] = {}
            for key in data.files:
                if key != "about":
                    share, queries, measure = key.split("|")
                    scores.setdefault(float(share), {})[queries, measure] = data[key].astype(np.float64)
        real = {
            share: {measure: own.pop((REAL, measure)) for measure in MEASURES}
            for share, own in scores.items()
        }
        for share in SHARES[about["kind"]]:
            change = change_of(scores[BASE], scores[share], share=share, kind=about["kind"])
            if change is None:
                continue
            apart = real[share][NDCG] - real[BASE][NDCG]
            recall = float((real[share][RECALL] - real[BASE][RECALL]).mean())
            error = float(apart.std(ddof=1)) / len(apart) ** 0.5
            names = (about["set"], about["base"], about["kind"], about["seed"])
            before = float(real[BASE][NDCG].mean())
            found.append(Trial(*names, change, float(apart.mean()), recall, error, before))
    counts: dict[tuple[str, str, float], int] = {}
    for one in found:
        key = (one.corpus, one.base, one.change.share)
        counts[key] = counts.get(key, 0) + 1
    return [
        Trial(**{**vars(one), "weight": 1 / counts[one.corpus, one.base, one.change.share]}) for one in found
    ]


# Prior of the coefficients, and of the two parts of the spread with its weight.
_RIDGE, _SPREAD, _FIRM = 0.5, np.array([4.0, 0.3]), 0.05
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


def spread(some: Sequence[Trial], predicted: Double) -> tuple[float, float]:
    """Fit the spread of predictions of left-out trials by maximum likelihood."""
    truth, error, share, weight = (
        np.array(values)
        for values in zip(*((one.ndcg, one.error, one.change.share, one.weight) for one in some), strict=True)
    )

    def loss(logs: Double) -> float:
        fixed, relative = np.exp(logs)
        variance = (fixed * share) ** 2 + (relative * predicted) ** 2 + error**2
        own = 0.5 * np.log(variance) + 0.5 * (truth - predicted) ** 2 / variance
        return float(np.average(own, weights=weight)) + _FIRM * float(((logs - np.log(_SPREAD)) ** 2).sum())

    fixed, relative = np.exp(optimize.minimize(loss, np.log(_SPREAD), method="Nelder-Mead").x)
    return float(fixed), float(relative)


def left_out(some: Sequence[Trial]) -> Double:
    """Predict the trials of each corpus by coefficients that were fitted on the others."""
    found = np.zeros(len(some))
    for corpus in {one.corpus for one in some}:
        fitted = coefficients([one for one in some if one.corpus != corpus], "ndcg")
        for row, one in enumerate(some):
            if one.corpus == corpus:
                found[row] = one.change.features @ fitted
    return found


def fitted(some: Sequence[Trial], reliability: Reliability) -> Calibration:
    """Fit the whole model."""
    return Calibration(
        coefficients(some, "ndcg"), coefficients(some, "recall"), spread(some, left_out(some)), reliability
    )


NOTHING = Reliability(0, 0, 0, 0.0, 0.0, 0.0, 0.0)


def predictions(some: Sequence[Trial]) -> dict[tuple[str, str, int], list[tuple[Trial, Gain]]]:
    """Predict all runs, those of each corpus by a model that was fitted on the others."""
    runs: dict[tuple[str, str, int], list[tuple[Trial, Gain]]] = {}
    for corpus in dict.fromkeys(one.corpus for one in some):
        model = fitted([one for one in some if one.corpus != corpus], NOTHING)
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
        place = select([gain for _, gain in candidates])
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
    some = trials(arguments.cache)
    runs = predictions(some)
    found = verdicts(runs)
    bases = sorted({one.base for one in found})
    whole = {
        base or "all": summary(
            [one for one in found if base in ("", one.base)],
            [pair for (_, other, _), pairs in runs.items() for pair in pairs if base in ("", other)],
        )
        for base in ("", *bases)
    }
    for base, values in whole.items():
        print(base, json.dumps(values), flush=True)
    every = whole["all"]
    reliability = Reliability(
        corpora=len({one.corpus for one in some}),
        **{name: every[name] for name in Reliability._fields if name in every},
    )
    model = fitted(some, reliability)
    if arguments.calibration is not None:
        values = {
            "by": "benchmarks/adapt_verdicts.py",
            "ndcg": model.ndcg.round(3).tolist(),
            "recall": model.recall.round(3).tolist(),
            "spread": [round(value, 3) for value in model.spread],
            "reliability": reliability._asdict(),
        }
        write_text(arguments.calibration, json.dumps(values, indent=1) + "\n")
    if arguments.output is not None:
        rows = [
            {key: value if isinstance(value, str) else round(value, 2) for key, value in asdict(one).items()}
            for one in found
        ]
        about = {"versions": library_versions(), "hardware": hardware()}
        write_json(arguments.output, {**about, "summary": whole, "runs": rows})


def main() -> None:
    """Measure, or fit and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("measure")
    first.set_defaults(run=measure)
    first.add_argument("--data-dir", type=Path, required=True)
    first.add_argument("--model", required=True, help="a finished encoder")
    first.add_argument("--bases", nargs="*", default=[], help="in place of the three")
    first.add_argument("--sets", nargs="*", default=[])
    first.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    first.add_argument("--documents", type=int, default=5000, help="documents of a collection at most")
    first.add_argument("--judged", type=int, default=400, help="judged queries of a collection at most")
    first.add_argument("--cache", type=Path, required=True)
    second = commands.add_parser("fit")
    second.set_defaults(run=report)
    second.add_argument("--cache", type=Path, required=True)
    second.add_argument("--calibration", type=Path, default=None)
    second.add_argument("--output", type=Path, default=None)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
