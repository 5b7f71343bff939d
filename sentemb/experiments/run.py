"""`run_experiment`: from an experiment to its records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic.fields import FieldInfo

from sentemb.evaluation.schema import Record
from sentemb.experiments.experiment import Experiment
from sentemb.experiments.runner import Place, TrialKind, run_trials
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
    kind = _kind_of(experiment)
    data = checked_model(kind.data_model, experiment.data, f"{experiment.name}, data")
    shown = progress if jobs == 1 else None
    place = Place(work or folder / "models", data_dir, keep_models, shown, say)
    return run_trials(kind(experiment, data, place), folder, jobs=jobs, announce=say)


def data_fields(experiment: Experiment) -> Mapping[str, FieldInfo]:
    """What the table `data` of an experiment may hold."""
    return _kind_of(experiment).data_model.model_fields


def _kind_of(experiment: Experiment) -> type[TrialKind]:
    if experiment.kind == "classification":
        from sentemb.experiments.classification import ClassificationTrials

        return ClassificationTrials
    if experiment.kind == "multitask":
        from sentemb.experiments.multitask import MultiTaskTrials

        return MultiTaskTrials
    from sentemb.experiments.sts import FrozenTrials, StsTrials

    return FrozenTrials if experiment.kind == "frozen" else StsTrials
