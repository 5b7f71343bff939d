"""The three tasks that one encoder serves, their sets, and all optimizer steps on them in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from sentemb.data import load_columns, load_labelled
from sentemb.data.labelled import LabelledTexts
from sentemb.data.pairs import split_pairs
from sentemb.errors import InputError
from sentemb.training.config import MultiTaskConfig
from sentemb.training.config import Task as Task

TASKS: tuple[Task, ...] = ("sentiment", "paraphrase", "similarity")
"""In the order in which round robin visits them: SST, Quora, STS (Chen, section 5.3)."""

HIGHEST_SCORE = 5.0
"""Two texts of this score say the same (STS)."""

Rows = NDArray[np.int64]
ContrastSet = Literal["nli", "sentiment", "paraphrase", "similarity"]


@dataclass(frozen=True)
class TaskSets:
    """One split of each task's set.

    Attributes:
        sentiment: Single texts with classes.
        paraphrase: Pairs of two classes, of which the second is "they are paraphrases".
        similarity: Pairs with scores from 0 to 5.

    Raises:
        InputError: A set is of another kind.

    Example:
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
        >>> train.sentiment.label_names  # doctest: +SKIP
    """

    sentiment: LabelledTexts
    paraphrase: LabelledTexts
    similarity: LabelledTexts

    def __post_init__(self) -> None:
        scores = self.similarity.labels
        graded = not self.similarity.label_names and 0 <= scores.min() <= scores.max() <= HIGHEST_SCORE
        suitable = {
            "sentiment": (len(self.sentiment.label_names) >= 2, "single texts of two or more classes"),
            "paraphrase": (
                len(self.paraphrase.label_names) == 2,
                "pairs of texts of two classes, the second of which marks paraphrases",
            ),
            "similarity": (graded, f"pairs of texts with scores from 0 to {HIGHEST_SCORE:g}"),
        }
        for task, data in self:
            fits, expected = suitable[task]
            if not fits or (data.pairs is None) != (task == "sentiment"):
                raise InputError(
                    f"{data.name} {data.split} is not suitable for the task {task}", f"use {expected}"
                )

    def __iter__(self) -> Iterator[tuple[Task, LabelledTexts]]:
        for task in TASKS:
            yield task, self[task]

    def __getitem__(self, task: Task) -> LabelledTexts:
        data: LabelledTexts = getattr(self, task)
        return data

    def columns(self, task: Task) -> list[list[str]]:
        """Return the text columns of a set."""
        data = self[task]
        return [data.texts] if data.pairs is None else [data.texts, data.pairs]

    def sample(self, rows: int | None) -> TaskSets:
        """Return up to `rows` rows of each set (None: all), always the same ones."""
        # Drawn, because published files may be in the order of their classes.
        draws = ((data, np.random.default_rng(0).permutation(len(data))[:rows]) for _, data in self)
        return self if rows is None else TaskSets(*(data.select(np.sort(drawn)) for data, drawn in draws))


def load_task_sets(
    *,
    data_dir: str | os.PathLike[str] | None = None,
    held_out: float | None = None,
    check_rows: bool = True,
) -> tuple[TaskSets, TaskSets]:
    """Load the training and dev sets of Stanford's CS 224N default project.

    The project's starter code lower-cases the texts and puts spaces around the punctuation of pairs, which
    the tokenizer of an uncased BERT does by itself. Here the texts stay as they are, so that a model meets
    in use what it met in training.

    Args:
        data_dir: Folder that holds `cs224n/`; None means `SENTEMB_DATA`.
        held_out: Divide Quora's dev split instead of reading its training split, which is not always at hand:
            the share of the pairs to evaluate on. No text is in both parts.
        check_rows: Refuse a set whose row count is not the published one.

    Returns:
        Training sets and dev sets.

    Raises:
        InputError: A set is missing or broken, or `held_out` is not a share.

    Example:
        >>> train, dev = load_task_sets(data_dir="data")  # doctest: +SKIP
    """

    def load(name: str, split: str) -> LabelledTexts:
        return load_labelled(f"cs224n-{name}", split=split, data_dir=data_dir, check_rows=check_rows)

    if held_out is None:
        pairs = load("quora", "train"), load("quora", "dev")
    elif not 0 < held_out < 1:
        raise InputError(f"held_out is {held_out:g}", "use a fraction between 0 and 1")
    else:
        whole = load("quora", "dev")
        parts = split_pairs(whole, seed=0, dev=held_out / 2, test=held_out / 2)
        rest = np.sort(np.concatenate([parts.dev, parts.test]))
        pairs = whole.select(parts.train, split="dev, remainder"), whole.select(rest, split="dev, held out")
    train, dev = (
        TaskSets(load("sst", split), one, load("sts", split))
        for split, one in zip(("train", "dev"), pairs, strict=True)
    )
    return train, dev


def read_nli_columns(
    source: str, *, data_dir: str | os.PathLike[str] | None = None, rows: int | None = None
) -> list[list[str]]:
    """Read NLI triples.

    Args:
        source: A file of three text columns, or a name of the catalogue.
        data_dir: Folder of local data sets; None means `SENTEMB_DATA`.
        rows: Maximum number of rows.

    Returns:
        Anchors, positives and hard negatives.

    Raises:
        InputError: The source does not have three columns of text.

    Example:
        >>> columns = read_nli_columns("nli.csv", rows=1000)  # doctest: +SKIP
    """
    triples = load_columns(source, data_dir=data_dir, limit=rows)
    if len(triples.column_names) != 3:
        raise InputError(
            f"{source} does not have three columns", "provide anchors, positives and hard negatives"
        )
    return [list(triples[name]) for name in triples.column_names]


def uses_nli(config: MultiTaskConfig) -> bool:
    """Return whether a configuration trains on NLI triples."""
    return config.contrast != "none" and "nli" in config.contrast_data


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a set, and what is done with them."""

    objective: Literal["task", "contrast"]
    data: ContrastSet
    rows: Rows

    @property
    def name(self) -> str:
        """The name of its loss in logs."""
        return self.data if self.objective == "task" else f"contrast_{self.data}"


Step = tuple[Part, ...]
"""The batches of one optimizer step."""


class StepPlan(Dataset[Step]):
    """The steps of all stages, laid out epoch by epoch, so that a resumed run reads on where it stopped.

    A stage is the part of a run with an optimizer of its own: `tasks`, `fused`, or contrast on a source. A
    step is a function of the configuration and its number alone.
    """

    def __init__(self, config: MultiTaskConfig, sets: TaskSets, *, nli_rows: int = 0) -> None:
        self.config, self.sets, self.nli_rows = config, sets, nli_rows
        contrast = [f"contrast on {source}" for source in config.contrast_data]
        orders = {"none": ["tasks"], "before": [*contrast, "tasks"], "after": ["tasks", *contrast]}
        self.stages = orders.get(config.contrast, ["fused"])
        # Every epoch of a stage has as many steps as the first.
        self._epochs = [len(self.layout(stage, np.random.default_rng(0))) for stage in self.stages]
        counts = {"tasks": config.epochs, "fused": config.epochs, "contrast on nli": config.nli_epochs}
        sizes = [
            counts.get(stage, config.contrast_epochs) * epoch
            for stage, epoch in zip(self.stages, self._epochs, strict=True)
        ]
        self._ends = list(accumulate(min(size, config.max_steps or size) for size in sizes))
        self._laid_out: tuple[tuple[int, int], list[Step]] | None = None

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int) -> Step:
        if not 0 <= number < len(self):
            raise IndexError(number)
        stage, place = self.locate(number)
        epoch, place = divmod(place, self._epochs[stage])
        if self._laid_out is None or self._laid_out[0] != (stage, epoch):
            generator = np.random.default_rng((self.config.seeds[0], stage, epoch))
            self._laid_out = (stage, epoch), self.layout(self.stages[stage], generator)
        return self._laid_out[1][place]

    def locate(self, number: int) -> tuple[int, int]:
        """Return a step's stage, and its number within it."""
        stage = next(index for index, end in enumerate(self._ends) if number < end)
        return stage, number - (self._ends[stage - 1] if stage else 0)

    def ends_epoch(self, number: int) -> bool:
        """Return whether a step is the last one of an epoch."""
        stage, place = self.locate(number)
        return number + 1 == self._ends[stage] or (place + 1) % self._epochs[stage] == 0

    def learning_rate(self, number: int) -> float:
        """Return a linear rise over the warm-up of the stage, then a constant or a linear fall to 0."""
        number, config = min(number, len(self) - 1), self.config
        stage, step = self.locate(number)
        steps = self._ends[stage] - (number - step)
        contrast = self.stages[stage].startswith("contrast")
        peak = config.contrast_learning_rate if contrast else config.learning_rate
        warm = round(config.warmup * steps)
        if step < warm:
            return peak * step / warm
        return peak * (steps - step) / max(1, steps - warm) if config.schedule == "linear" else peak

    def layout(self, stage: str, generator: np.random.Generator) -> list[Step]:
        """Return the steps of an epoch of a stage."""
        config, paraphrase = self.config, self.sets.paraphrase
        if stage == "tasks":
            return self._tasks(generator)
        # The paper's two orders (sections 4.1 and 5.3).
        order = (TASKS[1], TASKS[0], TASKS[2]) if config.contrast_supervised else TASKS
        rows: dict[ContrastSet, Rows] = {task: np.arange(len(self.sets[task])) for task in order}
        if config.contrast_supervised and config.loss_options.get("negatives") == "ignored":
            # Whole batches of paraphrases: the loss would skip the other pairs.
            rows["paraphrase"] = np.flatnonzero(paraphrase.labels == 1)
        steps: list[Step] = []
        if stage == "fused":
            # Each batch is trained on its task, then on contrast (section 4.2); a single row contrasts with
            # nothing.
            (task,) = config.tasks
            del rows[task]
            for batch in self._batches(generator.permutation(len(self.sets[task]))):
                parts = [Part("task", task, batch), Part("contrast", task, batch)][: len(batch)]
                steps += [(part,) for part in parts]
        elif stage == "contrast on nli":
            rows = {"nli": np.arange(self.nli_rows)}
        elif stage == "contrast on quora":
            rows = {"paraphrase": rows["paraphrase"]}
        for name, usable in rows.items():
            share = config.paraphrase_share if name == "paraphrase" else 1.0
            chosen = generator.permutation(usable)[: max(1, round(share * len(usable)))]
            steps += [(Part("contrast", name, one),) for one in self._batches(chosen) if len(one) > 1]
        return steps

    def _tasks(self, generator: np.random.Generator) -> list[Step]:
        """Lay out the tasks; unless each has its turn, all sets are brought to the smallest (section 4.2)."""
        tasks, whole = self.config.tasks, self.config.task_schedule == "epoch-round-robin"
        smallest = min(len(self.sets[task]) for task in tasks)
        batches = []
        for task in tasks:
            rows = generator.permutation(len(self.sets[task]))[: None if whole else smallest]
            batches.append([Part("task", task, batch) for batch in self._batches(rows)])
        steps = batches if whole else list(zip(*batches, strict=True))
        if self.config.task_schedule == "average":
            return [tuple(parts) for parts in steps]
        return [(part,) for parts in steps for part in parts]

    def _batches(self, rows: Rows) -> list[Rows]:
        size = self.config.batch_size
        return [rows[start : start + size] for start in range(0, len(rows), size)]
