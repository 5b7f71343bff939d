"""The loss of a batch, whatever is done with it: a task, or contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from sentemb._compat import get_rank, get_world_size
from sentemb.losses import ParaphraseContrastLoss, SimCSELoss
from sentemb.losses.encoder import project
from sentemb.losses.gather import mean_weight
from sentemb.multitask.heads import task_loss
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.plan import ContrastSet, Part
from sentemb.multitask.tasks import TASKS, Task, TaskSets
from sentemb.training.config import MultiTaskConfig
from sentemb.training.length_bucketing import bucketed_by_length
from sentemb.training.objective import check_loss_options
from sentemb.training.ranks import share_of


class MultiTaskLoss(nn.Module):
    """Owns the heads of the tasks and of contrast, so that every checkpoint holds them.

    One head of two linear layers serves all contrast (Chen, section 4.1). Labelled pairs go through
    `ParaphraseContrastLoss`, whose head it is. Triples and dropout views go through `SimCSELoss` with the
    same head and temperature. The two sides of unlabelled pairs are views in batches of their own, since the
    partner of a text is not a negative of it; the paper does not say.

    Its parameters are in the order in which norms and products are summed: encoder, heads, head of contrast.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        sets: TaskSets,
        config: MultiTaskConfig,
        nli: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__()
        self.tasks, self.sets, self.config = model, sets, config
        self.encoder, self.heads = model.encoder, model.heads
        self.pairs = ParaphraseContrastLoss(self.encoder, **check_loss_options(config, cacheable=False))
        self.views = SimCSELoss(self.encoder, temperature=self.pairs.temperature, head=None)
        self.columns: dict[ContrastSet, Sequence[Sequence[str]]] = {
            task: sets.columns(task) for task in TASKS
        }
        self.columns["nli"] = nli
        self.citation = self.pairs.citation

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options of contrast, for the record."""
        options: dict[str, Any] = self.pairs.get_config_dict()
        return options

    def forward(self, part: Part) -> Tensor:
        """Return the loss of a batch: on several ranks of each one's rows, which average to that of all."""
        world = get_world_size()
        # A batch that cannot be divided is every rank's.
        divided = world > 1 and len(part.rows) >= world
        rows = part.rows[share_of(len(part.rows), get_rank(), world)] if divided else part.rows
        columns = [[column[row] for row in rows] for column in self.columns[part.data]]
        labels = None
        if part.data != "nli":
            labels = torch.from_numpy(self.sets[part.data].labels[rows]).to(self.encoder.device)
        if part.objective == "contrast":
            labelled = part.data == "paraphrase" and self.config.contrast_supervised
            self.pairs.gather_across_devices = self.views.gather_across_devices = divided
            return self.contrast(columns, labels if labelled else None)
        task = cast(Task, part.data)  # triples do not have a task
        predicted = self.heads(task, *_embed(self.encoder, columns))
        nominal = self.config.batch_size if self.config.preset == "released" else None
        target = self.config.similarity_target
        loss = task_loss(
            task, predicted, cast(Tensor, labels), similarity_target=target, nominal_rows=nominal
        )
        if not divided:
            return loss
        # A sum over a fixed number of rows is not a mean.
        return loss * (world if nominal and task == "sentiment" else mean_weight(predicted))

    def contrast(self, columns: Sequence[Sequence[str]], labels: Tensor | None = None) -> Tensor:
        """Return the loss of labelled pairs, of triples, or of the dropout views of each column."""
        if labels is not None:
            return self.pairs.compute_loss_from_embeddings(_embed(self.encoder, columns), labels)
        groups = [columns] if len(columns) == 3 else [[one, one] for one in columns]
        losses = [
            self.views.compute_loss_from_embeddings(
                [project(self.pairs.head, vectors) for vectors in _embed(self.encoder, group)]
            )
            for group in groups
        ]
        return torch.stack(losses).mean()


def _embed(encoder: SentenceTransformer, columns: Sequence[Sequence[str]]) -> list[Tensor]:
    """Return training vectors of columns, each `(n, d)`; every text has a dropout mask of its own."""
    features = {
        name: value.to(encoder.device) if isinstance(value, Tensor) else value
        for name, value in encoder.preprocess([text for column in columns for text in column]).items()
    }
    vectors: Tensor = bucketed_by_length(encoder)(features)["sentence_embedding"]  # (columns * n, d)
    return list(vectors.chunk(len(columns)))
