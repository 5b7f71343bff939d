"""Token vectors whose mean points where the teacher's sentence vector points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn.functional import embedding_bag, normalize

from sentemb.compression.static_bags import Bags
from sentemb.encoding.encoder import Vectors

BATCH = 1024
LEARNING_RATE = 0.03
_BETAS = (0.9, 0.99)
_WARM_UP = 50  # steps
_LEAST_RATE = 0.02  # of the learning rate, at the end


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

    Nothing but the direction counts, so that the length of a token's vector becomes its weight in the mean.

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
        optimiser.zero_grad()
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        progress(step + 1)
    return weights.detach().numpy()


def _cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (normalize(first) * normalize(second)).sum(dim=1)


def _rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / _WARM_UP) * max(_LEAST_RATE, 1 - step / steps)
