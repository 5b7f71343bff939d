"""The stages of a run: what is trained for how long, and how its epochs are laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sentemb.multitask.schedule import ContrastSet, Rows, Step, contrast_epoch, fused_epoch, task_epoch
from sentemb.multitask.tasks import TaskSets
from sentemb.training.config import MultiTaskConfig
from sentemb.training.config.multitask import ContrastSource

Layout = Callable[[np.random.Generator], list[Step]]


@dataclass(frozen=True)
class Stage:
    """A part of a run with an optimizer of its own."""

    name: str
    epochs: int
    learning_rate: float  # at its peak
    layout: Layout  # from a generator to the steps of an epoch, equally many each time


def stages_of(config: MultiTaskConfig, sets: TaskSets, *, nli_rows: int = 0) -> list[Stage]:
    """The stages of a configuration, in order."""
    tasks = Stage("tasks", config.epochs, config.learning_rate, _tasks(config, sets))
    if config.contrast == "none":
        return [tasks]
    if config.contrast == "fused":
        return [Stage("fused", config.epochs, config.learning_rate, _fused(config, sets))]
    contrast = [_contrast(config, source, sets, nli_rows) for source in config.contrast_data]
    return [*contrast, tasks] if config.contrast == "before" else [tasks, *contrast]


def uses_nli(config: MultiTaskConfig) -> bool:
    """Whether a configuration trains on NLI triples."""
    return config.contrast != "none" and "nli" in config.contrast_data


def _tasks(config: MultiTaskConfig, sets: TaskSets) -> Layout:
    return lambda generator: task_epoch(
        sets,
        tasks=config.tasks,
        schedule=config.task_schedule,
        resampling=config.resampling,
        batch_size=config.batch_size,
        generator=generator,
    )


def _fused(config: MultiTaskConfig, sets: TaskSets) -> Layout:
    (task,) = config.tasks
    rows = _given(config, sets)
    del rows[task]  # it has had its contrast
    follow = _contrast_layout(config, rows)

    def layout(generator: np.random.Generator) -> list[Step]:
        fused = fused_epoch(
            sets, task, fusion=config.fusion, batch_size=config.batch_size, generator=generator
        )
        return fused + follow(generator)

    return layout


def _contrast(config: MultiTaskConfig, source: ContrastSource, sets: TaskSets, nli_rows: int) -> Stage:
    rows = _given(config, sets)
    if source == "nli":
        rows = {"nli": np.arange(nli_rows)}
    elif source == "quora":
        rows = {"paraphrase": rows["paraphrase"]}
    epochs = config.nli_epochs if source == "nli" else config.contrast_epochs
    name = f"contrast on {source}"
    return Stage(name, epochs, config.contrast_learning_rate, _contrast_layout(config, rows))


def _contrast_layout(config: MultiTaskConfig, rows: dict[ContrastSet, Rows]) -> Layout:
    return lambda generator: contrast_epoch(
        rows,
        shares={"paraphrase": config.paraphrase_share},
        batch_size=config.batch_size,
        generator=generator,
    )


def _given(config: MultiTaskConfig, sets: TaskSets) -> dict[ContrastSet, Rows]:
    """Usable rows of the three sets in the paper's two orders (sections 4.1 and 5.3)."""
    pairs = np.arange(len(sets.paraphrase))
    if config.contrast_supervised and config.loss_options.get("negatives") == "ignored":
        # Whole batches of paraphrases: the loss would skip the other pairs.
        pairs = np.flatnonzero(sets.paraphrase.labels == 1)
    sentiment, similarity = np.arange(len(sets.sentiment)), np.arange(len(sets.similarity))
    if config.contrast_supervised:
        return {"paraphrase": pairs, "sentiment": sentiment, "similarity": similarity}
    return {"sentiment": sentiment, "paraphrase": pairs, "similarity": similarity}
