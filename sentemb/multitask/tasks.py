"""The three tasks that one encoder serves, and their sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.training.config.multitask import Task as Task

TASKS: tuple[Task, ...] = ("sentiment", "paraphrase", "similarity")
"""In the order in which round robin visits them: SST, Quora, STS (Chen, section 5.3)."""

HIGHEST_SCORE = 5.0
"""Two texts of this score say the same (STS)."""


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
        for task, data in self:
            if (data.pairs is None) != (task == "sentiment"):
                wanted = "single texts" if task == "sentiment" else "pairs of texts"
                raise InputError(
                    f"{data.name} {data.split} is not suitable for the task {task}", f"use a set of {wanted}"
                )
        if len(self.sentiment.label_names) < 2:
            raise InputError(
                f"{self.sentiment.name} does not have two classes", "use a set with two or more classes"
            )
        if len(self.paraphrase.label_names) != 2:
            raise InputError(
                f"{self.paraphrase.name} has {len(self.paraphrase.label_names)} classes",
                "paraphrase needs two classes, the second of which marks paraphrases",
            )
        scores = self.similarity.labels
        if self.similarity.label_names or scores.min() < 0 or scores.max() > HIGHEST_SCORE:
            raise InputError(
                f"the labels of {self.similarity.name} {self.similarity.split} are not scores from 0 "
                f"to {HIGHEST_SCORE:g}",
                "rescale the labels",
            )

    def __iter__(self) -> Iterator[tuple[Task, LabelledTexts]]:
        for task in TASKS:
            yield task, self[task]

    def __getitem__(self, task: Task) -> LabelledTexts:
        data: LabelledTexts = getattr(self, task)
        return data

    def sample(self, rows: int | None) -> TaskSets:
        """So many rows of each set (None: all), to try things out; always the same ones."""
        if rows is None:
            return self
        # Drawn, because published files may be in the order of their classes.
        drawn = [np.sort(np.random.default_rng(0).permutation(len(data))[:rows]) for _, data in self]
        return TaskSets(*(data.select(chosen) for (_, data), chosen in zip(self, drawn, strict=True)))
