"""The loss of each task, on what its head gives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from sentemb._vectors import full_precision
from sentemb.multitask.tasks import HIGHEST_SCORE, Task

SimilarityTarget = Literal["fraction", "scaled", "shifted"]
"""How cosine and score are compared: cos with y / 5, 5 cos with y, or 5 (cos + 1) / 2 with y."""


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

    Args:
        task: The task.
        predicted: What `TaskHeads` gives for it.
        labels: Class numbers, or scores from 0 to 5, `(n,)`.
        similarity_target: See `SimilarityTarget`.
        nominal_rows: Divide the summed cross-entropy of sentiment by this, the batch size, also where the
            last batch of an epoch is smaller (the starter code that the paper builds on); None takes the
            mean.

    Returns:
        A scalar.
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
    """Scores that cosines stand for.

    Args:
        cosines: Of any shape.
        shifted: Whether the cosine -1 stands for 0, instead of the cosine 0.

    Returns:
        The same shape; negative for negative cosines that are not shifted.
    """
    return HIGHEST_SCORE * ((cosines + 1) / 2 if shifted else cosines)
