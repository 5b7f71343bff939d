"""The runs of a system as a comparison needs them: for every set the predictions of every seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sentemb.errors import InputError
from sentemb.evaluation.naming import check_once, without_seed
from sentemb.evaluation.result import ResultRecord

if TYPE_CHECKING:
    from sentemb.evaluation.transfer.records import TransferReport

Measure = str

Seed = int | str | None
"""What a run differs in from the others of its system; None of an encoder that was not trained with one."""


@dataclass(frozen=True, eq=False)
class SetRuns:
    """One set.

    Attributes:
        gold: `(n,)` gold scores, or classes.
        predictions: `(runs, n)` similarities, or classes, of each run.
        content: What must agree for two systems to be comparable: a checksum of the items.
    """

    gold: npt.NDArray[np.float64]
    predictions: npt.NDArray[np.float64]
    content: str


@dataclass(frozen=True, eq=False)
class Runs:
    """A system: one encoder, or the encoders or classifiers that differ in their seed alone.

    Attributes:
        name: What tables call it.
        measure: What it is judged by.
        seeds: Of each run. Runs of equal seeds are one where it is asked what another seed would give: the
            classifiers of one encoder.
        sets: Predictions by set.
    """

    name: str
    measure: Measure
    seeds: tuple[Seed, ...]
    sets: Mapping[str, SetRuns]


def sts_runs(records: Sequence[ResultRecord], name: str, *, measure: Measure = "spearman") -> Runs:
    """The runs of a system on STS sets.

    Args:
        records: Records of one or more systems.
        name: The system: a model's name, without the `-seed-N` at the end of those of several seeds.
        measure: `spearman` or `pearson`, under the protocol `all`.

    Returns:
        The runs on the sets that all of them have.

    Raises:
        InputError: There is no such system, a run of it is there twice, or its runs share no set.
    """
    known = list(dict.fromkeys(without_seed(record.model) for record in records))
    chosen = [record for record in records if without_seed(record.model) == name]
    _check_found(name, known, found=bool(chosen))
    check_once([(record.model, "", record.seed) for record in chosen])
    shared = [
        one.name
        for one in chosen[0].sets
        if all(one.name in {other.name for other in record.sets} for record in chosen)
    ]
    sets = {}
    for set_name in shared:
        scores = [next(one for one in record.sets if one.name == set_name) for record in chosen]
        predictions = np.stack([score.predictions.similarities for score in scores])
        sets[set_name] = SetRuns(scores[0].predictions.gold, predictions, scores[0].checksum)
    _check_shared(name, sets)
    return Runs(name, measure, tuple(record.seed for record in chosen), sets)


def transfer_runs(reports: Sequence[TransferReport], name: str, *, preset: str) -> Runs:
    """The runs of a system on transfer tasks.

    Their seeds are those of the encoders, or of the classifiers where the system is a single encoder.

    Args:
        reports: Reports of one or more systems.
        name: The system: a model's name, without the `-seed-N` at the end of those of several seeds.
        preset: Name of the classifiers' preset.

    Returns:
        The runs on the tasks that all of them have.

    Raises:
        InputError: There is no such system under this preset, a run of it is there twice, its encoders have
            other numbers of classifiers, or its runs share no task.
    """
    under = [report for report in reports if report.preset == preset]
    chosen = [report for report in under if report.method == name]
    _check_found(name, list(dict.fromkeys(report.method for report in under)), found=bool(chosen))
    check_once([(report.model, f", preset {preset}", report.seed) for report in chosen])
    if len({*Counter(report.model for report in chosen).values()}) > 1:
        raise InputError(
            f"the encoders of {name} have other numbers of classifiers, under preset {preset}",
            "judge all of them with the same seeds of classifiers",
        )
    by_task = [{result.task: result for result in report.results} for report in chosen]
    sets = {
        task: SetRuns(
            gold=result.gold.astype(np.float64),
            predictions=np.stack([one[task].predictions for one in by_task]).astype(np.float64),
            content=hashlib.sha256(result.gold.astype(np.int64).tobytes()).hexdigest(),
        )
        for task, result in by_task[0].items()
        if all(task in one for one in by_task)
    }
    _check_shared(name, sets)
    return Runs(name, "accuracy", tuple(map(_seed_of, chosen)), sets)


def _seed_of(report: TransferReport) -> Seed:
    return f"classifiers {report.seed}" if report.encoder_seed is None else report.encoder_seed


def _check_found(name: str, known: Sequence[str], *, found: bool) -> None:
    if not found:
        raise InputError(f"no record of {name}", f"there are {', '.join(known) or 'none at all'}")


def _check_shared(name: str, sets: Mapping[str, SetRuns]) -> None:
    if not sets:
        raise InputError(f"the records of {name} share no set", "judge all of its seeds on the same sets")
