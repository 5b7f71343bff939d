"""The loss of a batch, whatever is done with it: a task, or contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from sentemb._compat import get_rank, get_world_size
from sentemb.losses import ParaphraseContrastLoss
from sentemb.losses.gather import mean_weight
from sentemb.multitask.contrast import Contrast, embed
from sentemb.multitask.evaluation import columns_of
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.objectives import task_loss
from sentemb.multitask.schedule import ContrastSet, Part, Rows
from sentemb.multitask.tasks import Task, TaskSets
from sentemb.training.config import MultiTaskConfig
from sentemb.training.ranks import share_of


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
        """Loss of a batch: on several ranks of this one's rows, so that the average is that of the batch."""
        world = get_world_size()
        # A batch that cannot be divided is every rank's.
        divided = world > 1 and len(part.rows) >= world
        rows = part.rows[share_of(len(part.rows), get_rank(), world)] if divided else part.rows
        self.contrast.gather(across_devices=divided)
        columns = [[column[row] for row in rows] for column in self.columns[part.data]]
        if part.objective == "contrast":
            labelled = part.data == "paraphrase" and self.config.contrast_supervised
            labels = self._labels("paraphrase", rows) if labelled else None
            contrast: Tensor = self.contrast(columns, labels)
            return contrast
        task = cast(Task, part.data)  # triples have no task
        vectors = embed(self.encoder, [text for column in columns for text in column])
        predicted = self.heads(task, *vectors.chunk(len(columns)))
        nominal = self.config.batch_size if self.config.preset == "released" else None
        loss = task_loss(
            task,
            predicted,
            self._labels(task, rows),
            similarity_target=self.config.similarity_target,
            nominal_rows=nominal,
        )
        if not divided:
            return loss
        # A sum over a fixed number of rows is no mean.
        return loss * (world if nominal and task == "sentiment" else mean_weight(predicted))

    def _labels(self, task: Task, rows: Rows) -> Tensor:
        return torch.from_numpy(self.sets[task].labels[rows]).to(self.encoder.device)
