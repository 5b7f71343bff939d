"""The heads and losses of the three tasks on one sentence vector."""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from sentemb._vectors import full_precision, unit_vectors
from sentemb.errors import InputError
from sentemb.modules.heads import check_count, check_probability, check_width
from sentemb.multitask.tasks import HIGHEST_SCORE, TASKS
from sentemb.training.config.multitask import Sharing, SimilarityTarget, Task


class TaskHeads(nn.Module):
    """Sentiment as classification, paraphrase as a bilinear form, similarity as a cosine.

    Each task has a network of two linear layers with dropout before each and ReLU between them (Chen,
    sections 4.2 and 5.3; the activation is not named there). With t1 and t2 the transformed vectors of a
    pair::

        sentiment  = MLP(h)
        paraphrase = t1^T W t2 + b      a logit: paraphrases where it is above 0
        similarity = cos(t1, t2)

    Args:
        width: Width d of the sentence vector, and of the hidden layers: 768 in the paper, as BERT-base is.
        classes: Classes of sentiment.
        sharing: `first-layer` (the paper's choice) shares the first linear layer of paraphrase and
            similarity, `full` both layers, `separate` none. With `none` there is nothing but sentiment's
            linear layer, and both pair tasks take the cosine of the sentence vectors: the baseline of Table
            1, for which nearly every pair is a paraphrase, since few cosines are negative.
        dropout: Probability; 0.3 in the paper.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> heads = TaskHeads(16, classes=5)
    """

    def __init__(
        self, width: int, classes: int = 5, *, sharing: Sharing = "first-layer", dropout: float = 0.3
    ) -> None:
        super().__init__()
        check_count("width", width)
        check_count("classes", classes, least=2)
        check_probability("dropout", dropout)
        if sharing not in get_args(Sharing):
            raise InputError(
                f"unknown sharing {sharing!r} of the task heads",
                f"choose one of {', '.join(get_args(Sharing))}",
            )
        self.width, self.classes, self.dropout = width, classes, dropout
        self.sharing: Sharing = sharing

        def layer(outputs: int) -> list[nn.Module]:
            return [nn.Dropout(dropout), nn.Linear(width, outputs)]

        last = layer(classes)
        self.sentiment = nn.Sequential(*(last if sharing == "none" else [*layer(width), nn.ReLU(), *last]))
        self.first, self.second = nn.ModuleDict(), nn.ModuleDict()
        self.bilinear: nn.Bilinear | None = None
        if sharing == "none":
            return
        for task in TASKS[1:]:
            first, second = self._names(task)
            if first not in self.first:
                self.first[first] = nn.Sequential(*layer(width), nn.ReLU())
            if second not in self.second:
                self.second[second] = nn.Sequential(*layer(width))
        self.bilinear = nn.Bilinear(width, width, 1)

    def forward(self, task: Task, *vectors: Tensor) -> Tensor:
        """Return what a task predicts.

        Args:
            task: The task.
            *vectors: Sentence vectors `(n, d)`; for a pair task the first texts' and the second ones'.

        Returns:
            Logits `(n, classes)` of sentiment, logits `(n,)` of paraphrase, cosines `(n,)` of similarity.
        """
        for one in vectors:
            check_width(one, self.width)
        if task == "sentiment":
            logits: Tensor = self.sentiment(*vectors)  # (n, classes)
            return logits
        if self.sharing != "none":
            first_layer, second_layer = self._names(task)
            vectors = tuple(self.second[second_layer](self.first[first_layer](one)) for one in vectors)
        first, second = vectors  # each (n, d)
        if task == "paraphrase" and self.bilinear is not None:
            # Autocast has no bilinear form: the vectors take the type of its weight here.
            kind = self.bilinear.weight.dtype
            logit: Tensor = self.bilinear(first.to(kind), second.to(kind)).squeeze(1)  # (n,)
            return logit
        return pair_cosines(first, second)

    def config(self) -> dict[str, Any]:
        """Return the constructor's arguments, as JSON values."""
        return {name: getattr(self, name) for name in ("width", "classes", "sharing", "dropout")}

    def _names(self, task: Task) -> tuple[str, str]:
        """Return the layers of a pair task. A shared one has one name, so it is saved once."""
        first = task if self.sharing == "separate" else "pair"
        return first, "pair" if self.sharing == "full" else task


def pair_cosines(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine of every vector with its counterpart, `(n,)`."""
    with torch.autocast(first.device.type, enabled=False):
        return (unit_vectors(first) * unit_vectors(full_precision(second))).sum(dim=1)


def task_loss(
    task: Task,
    predicted: Tensor,
    labels: Tensor,
    *,
    similarity_target: SimilarityTarget = "fraction",
    nominal_rows: int | None = None,
) -> Tensor:
    """Return the loss of a batch: cross-entropy, binary cross-entropy or squared error.

    The paper does not name the loss of similarity. With `nominal_rows` the sum of sentiment's losses is
    divided by that number.
    """
    with torch.autocast(predicted.device.type, enabled=False):
        predicted = full_precision(predicted)
        if task == "sentiment":
            rows = len(labels) if nominal_rows is None else nominal_rows
            return functional.cross_entropy(predicted, labels.long(), reduction="sum") / rows
        labels = labels.to(predicted.dtype)
        if task == "paraphrase":
            return functional.binary_cross_entropy_with_logits(predicted, labels)
        if similarity_target == "fraction":
            return functional.mse_loss(predicted, labels / HIGHEST_SCORE)
        return functional.mse_loss(scores_of(predicted, shifted=similarity_target == "shifted"), labels)


def scores_of(cosines: Tensor, *, shifted: bool) -> Tensor:
    """Return the scores that cosines stand for."""
    return HIGHEST_SCORE * ((cosines + 1) / 2 if shifted else cosines)
