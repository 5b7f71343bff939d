"""Token vectors whose mean points where the teacher's sentence vector points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn.functional import embedding_bag, log_softmax, normalize

from sentemb.compression.static_bags import Bags
from sentemb.encoding.encoder import Vectors

BATCH = 1024
LEARNING_RATE = 0.03
_BETAS = (0.9, 0.99)
_WARM_UP = 50  # steps
_LEAST_RATE = 0.02  # of the learning rate, at the end
_TEMPERATURE = 0.05  # of the neighbourhoods
_NEIGHBOURHOOD = 0.03  # weight of their loss beside the cosine's


def refine(
    table: Vectors,
    bags: Bags,
    targets: Vectors,
    *,
    steps: int,
    rate: float = 1.0,
    nested: Sequence[int] = (),
    seed: int = 0,
    progress: Callable[[int], None] = lambda step: None,
) -> Vectors:
    """Raise the cosine between the mean of a text's token vectors and the teacher's vector of it.

    Nothing but the direction counts, so that the length of a token's vector becomes its weight in the mean. A
    small part of the loss asks that each text has the same neighbours in its batch as with the teacher.

    Args:
        table: Token vectors to start from, (tokens, dimension).
        bags: The texts.
        targets: The teacher's vectors of them, (texts, dimension).
        steps: Batches of 1,024 texts.
        rate: Share of the learning rate.
        nested: Smaller numbers of leading dimensions whose cosine counts as much.
        seed: Of the draw of batches.
        progress: Told each step.

    Returns:
        The refined token vectors; those of tokens in no text stay as they are.
    """
    generator = np.random.default_rng(seed)
    weights = torch.nn.Parameter(torch.from_numpy(table.copy()))
    optimiser = torch.optim.Adam([weights], lr=rate * LEARNING_RATE, betas=_BETAS, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    widths = [*nested, table.shape[1]]
    order = np.empty(0, dtype=np.intp)
    for step in range(steps):
        if len(order) < min(BATCH, len(bags)):
            order = generator.permutation(len(bags))
        drawn, order = order[:BATCH], order[BATCH:]
        batch = bags.rows(drawn)
        means = embedding_bag(torch.from_numpy(batch.tokens), weights, batch.offsets)
        wanted = torch.from_numpy(targets[drawn])
        losses = [1 - _cosines(means[:, :width], wanted[:, :width]).mean() for width in widths]
        loss = torch.stack(losses).mean() + _NEIGHBOURHOOD * neighbourhood_loss(means, wanted)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        progress(step + 1)
    return weights.detach().numpy()


def neighbourhood_loss(means: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross-entropy between the teacher's neighbourhoods of a batch and the student's.

    A text's neighbourhood is the softmax over all other texts of their cosines with it, divided by 0.05.
    Lin, Yang & Lin (2021), "In-Batch Negatives for Knowledge Distillation with Tightly-Coupled Teachers for
    Dense Retrieval", RepL4NLP.

    Args:
        means: The student's vectors, (texts, dimension).
        wanted: The teacher's, (texts, dimension).

    Returns:
        The mean over the texts, a scalar; 0 for a single text, which has no neighbours.
    """
    own = torch.eye(len(means), dtype=torch.bool)
    teacher, student = (
        log_softmax((unit @ unit.T / _TEMPERATURE).masked_fill(own, -torch.inf), dim=1).masked_fill(own, 0.0)
        for unit in (normalize(wanted), normalize(means))
    )
    return -(teacher.exp().masked_fill(own, 0.0) * student).sum(dim=1).mean()


def _cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (normalize(first) * normalize(second)).sum(dim=1)


def _rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / _WARM_UP) * max(_LEAST_RATE, 1 - step / steps)
