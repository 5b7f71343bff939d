"""The loss of a batch, whatever is done with it: a task, or contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from sentemb.losses import ParaphraseContrastLoss
from sentemb.multitask.contrast import Contrast, embed
from sentemb.multitask.evaluation import columns_of
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.objectives import task_loss
from sentemb.multitask.schedule import ContrastSet, Part, Rows
from sentemb.multitask.tasks import Task, TaskSets
from sentemb.training.config import MultiTaskConfig


class MultiTaskLoss(nn.Module):
    """Owns the heads of the tasks and of contrast, so that every checkpoint holds them."""

    def __init__(
        self,
        model: MultiTaskModel,
        pairs: ParaphraseContrastLoss,
        sets: TaskSets,
        config: MultiTaskConfig,
        *,
        nli: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__()
        self.encoder, self.heads = model.encoder, model.heads
        self.contrast = Contrast(pairs)
        self.sets, self.config = sets, config
        self.columns: dict[ContrastSet, Sequence[Sequence[str]]] = {
            task: columns_of(data) for task, data in sets
        }
        self.columns["nli"] = nli
        self.citation = pairs.citation

    def get_config_dict(self) -> dict[str, Any]:
        """The options of contrast, for the record."""
        options: dict[str, Any] = self.contrast.pairs.get_config_dict()
        return options

    def trained(self) -> nn.ModuleDict:
        """Everything that is trained, in the order in which norms and products are summed."""
        modules: dict[str, nn.Module] = {"encoder": self.encoder, "heads": self.heads}
        if self.contrast.pairs.head is not None:
            modules["contrast"] = self.contrast.pairs.head
        return nn.ModuleDict(modules)

    def forward(self, part: Part) -> Tensor:
        """Loss of a batch."""
        columns = [[column[row] for row in part.rows] for column in self.columns[part.data]]
        if part.objective == "contrast":
            labelled = part.data == "paraphrase" and self.config.contrast_supervised
            labels = self._labels("paraphrase", part.rows) if labelled else None
            contrast: Tensor = self.contrast(columns, labels)
            return contrast
        task = cast(Task, part.data)  # triples have no task
        vectors = embed(self.encoder, [text for column in columns for text in column])
        predicted = self.heads(task, *vectors.chunk(len(columns)))
        return task_loss(
            task,
            predicted,
            self._labels(task, part.rows),
            similarity_target=self.config.similarity_target,
            nominal_rows=self.config.batch_size if self.config.preset == "released" else None,
        )

    def _labels(self, task: Task, rows: Rows) -> Tensor:
        return torch.from_numpy(self.sets[task].labels[rows]).to(self.encoder.device)
