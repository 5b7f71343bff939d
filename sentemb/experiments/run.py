"""`run_experiment`: from an experiment to its records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sentemb.evaluation.record import Record
from sentemb.experiments.experiment import Experiment
from sentemb.experiments.runner import TrialKind, run_trials
from sentemb.experiments.validation import checked_model

if TYPE_CHECKING:
    from sentemb.training.progress import ConsoleProgress

logger = logging.getLogger(__name__)


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    jobs: int = 1,
    data_dir: str | Path | None = None,
    work: Path | None = None,
    keep_models: bool = False,
    progress: ConsoleProgress | None = None,
    announce: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run the trials of an experiment that have no record yet.

    A trial is found again by its method with all settings, the content of its base, its data and its seed: a
    changed one is another trial. An interrupted training resumes from its checkpoint; a killed trial has its
    whole record or none.

    Args:
        experiment: The experiment.
        folder: Where the records go; several experiments may share one.
        jobs: How many processes run trials. They share the cores.
        data_dir: Folder of local data sets; `SENTEMB_DATA` by default.
        work: Where models are trained; `FOLDER/models` by default. A model is removed once it has its record.
        keep_models: Do not remove trained encoders.
        progress: Where to show trainings in this process.
        announce: Takes a line on each trial that ended, with the time left; the log by default.

    Returns:
        The record of every trial that its data allow, in the order of the grid; what the data do not allow is
        announced and skipped.

    Raises:
        InputError: A method refuses its settings or its data, the error naming the trial; the folder holds
            records of other rows; a record is damaged; or no trial is possible.

    Example:
        >>> run_experiment(load_experiment("ablations"), Path("runs/ablations"))  # doctest: +SKIP
    """
    say = announce or (progress.announce if progress is not None else logger.info)
    kind = _kind_of(
        experiment,
        data_dir=data_dir,
        work=work or folder / "models",
        keep_models=keep_models,
        progress=progress if jobs == 1 else None,
        announce=say,
    )
    return run_trials(kind, folder, jobs=jobs, announce=say)


def data_fields(experiment: Experiment) -> Mapping[str, FieldInfo]:
    """What the table `data` of an experiment may hold."""
    return _data_model(experiment).model_fields


def _data_model(experiment: Experiment) -> type[BaseModel]:
    if experiment.kind == "classification":
        from sentemb.experiments.classification import ClassificationData as Data
    elif experiment.kind == "multitask":
        from sentemb.experiments.multitask import MultiTaskData as Data  # type: ignore[assignment]
    else:
        from sentemb.experiments.sts import StsData as Data  # type: ignore[assignment]
    return Data


def _kind_of(
    experiment: Experiment, *, work: Path, announce: Callable[[str], None], **options: Any
) -> TrialKind:
    data: Any = checked_model(_data_model(experiment), experiment.data, f"{experiment.name}, data")
    data_dir = options["data_dir"]
    if experiment.kind == "classification":
        from sentemb.experiments.classification import ClassificationTrials

        return ClassificationTrials(experiment, data, data_dir=data_dir, work=work, announce=announce)
    if experiment.kind == "multitask":
        from sentemb.experiments.multitask import MultiTaskTrials

        return MultiTaskTrials(experiment, data, data_dir=data_dir, work=work)
    from sentemb.experiments.sts import FrozenTrials, StsTrials

    make = FrozenTrials if experiment.kind == "frozen" else StsTrials
    return make(experiment, data, work=work, **options)
