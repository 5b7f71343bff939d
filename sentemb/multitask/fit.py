"""From labelled texts of three tasks to one model in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb.errors import InputError
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.session import MultiTaskSession
from sentemb.multitask.stages import uses_nli
from sentemb.multitask.tasks import TaskSets
from sentemb.training.config import MultiTaskConfig as MultiTaskConfig
from sentemb.training.folder import RunFolder
from sentemb.training.objective import check_loss_options
from sentemb.training.outcome import Run
from sentemb.training.progress import ConsoleProgress, without_upstream_bars
from sentemb.training.ranks import on_all, on_main


@dataclass(frozen=True)
class MultiTaskRun:
    """A finished training.

    Args:
        model: The model with the kept weights.
        run: Where it lies and how it did; `dev_score` is the mean of the three tasks.
    """

    model: MultiTaskModel
    run: Run


def fit_multitask(
    config: MultiTaskConfig,
    train: TaskSets,
    dev: TaskSets,
    *,
    nli: Sequence[Sequence[str]] = (),
    resume: bool = False,
    progress: ConsoleProgress | None = None,
) -> MultiTaskRun:
    """Train one encoder for several tasks, and leave it in a folder that loads with and without sentemb.

    The same configuration and data on the same machine give the same weights, interrupted and resumed or not.
    Beside the model that is best overall, the run's folder keeps the best one of each task, from which
    `TaskEnsemble.of_runs` chooses.

    Args:
        config: The configuration, with one seed.
        train: Sets to train on; contrast uses those of tasks that are not trained, too.
        dev: Sets to choose the weights by.
        nli: Anchors, positives and hard negatives, a list each, where `contrast_data` names `nli`.
        resume: Resume the interrupted run in the output folder, if there is one.
        progress: Where to show progress.

    Returns:
        The model and its run.

    Raises:
        InputError: Something in the configuration, the data or the folder cannot be used.
        Interrupted: The user stopped the run, which can be resumed.

    Example:
        >>> config = resolve("table2-given", overrides={"output": "multitask"})  # doctest: +SKIP
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
        >>> fit_multitask(config, train, dev).model.predict_sentiment(["Fun."])  # doctest: +SKIP
    """
    config.check_single_seed("fit_multitask")
    check_loss_options(config, cacheable=False)
    if uses_nli(config) != bool(nli):
        raise InputError(
            "contrast_data=nli needs NLI triples"
            if not nli
            else "nli is set, but contrast_data does not include it",
            "pass nli together with contrast_data=nli, or neither",
        )
    for task, data in dev:
        if data.label_names != train[task].label_names:
            raise InputError(
                f"the training and the dev set of {task} have different classes",
                "read the dev set with label_names of the training set",
            )
    on_main(lambda: RunFolder(Path(config.output)).check(config, resume=resume))
    with without_upstream_bars():
        session = on_all(lambda: MultiTaskSession(config, train, dev, nli, progress=progress))
        run = session.run(resume=resume)
        return MultiTaskRun(MultiTaskModel.load(run.output), run)
