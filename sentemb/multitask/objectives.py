"""The loss of each task, on what its head gives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sentemb._vectors import full_precision
from sentemb.multitask.tasks import HIGHEST_SCORE
from sentemb.training.config.multitask import SimilarityTarget, Task


def task_loss(
    task: Task,
    predicted: Tensor,
    labels: Tensor,
    *,
    similarity_target: SimilarityTarget = "fraction",
    nominal_rows: int | None = None,
) -> Tensor:
    """Loss of a batch of one task: cross-entropy, binary cross-entropy or squared error.

    The paper does not name the loss of similarity.
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
    """Scores that cosines stand for."""
    return HIGHEST_SCORE * ((cosines + 1) / 2 if shifted else cosines)
