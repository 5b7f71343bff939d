"""Fit a flow on vectors: BERT-flow's training, in which the encoder takes no part."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sentemb.errors import InputError
from sentemb.modules.flow import FlowModule
from sentemb.transforms.bert_adam import BertAdam
from sentemb.transforms.config import FlowConfig
from sentemb.transforms.whitening import checked_vectors

logger = logging.getLogger(__name__)

OnStep = Callable[[int, int, float], Any]
"""Told after every step: the step from 1, the steps in all, and the bits per dimension of its sentences."""
PairsOfEpoch = Callable[[int], tuple[Tensor, Tensor | None]]
"""The vectors of an epoch's first and second sentences, each (pairs, dimension); or of single sentences."""

# BERT's Adam; the bias-corrected one has them too, so that the two differ in nothing else.
_BETAS, _EPSILON = (0.9, 0.999), 1e-6


def fit_flow(
    vectors: npt.ArrayLike,
    second: npt.ArrayLike | None = None,
    *,
    config: FlowConfig | None = None,
    on_step: OnStep | None = None,
) -> FlowModule:
    """Fit a flow on vectors by maximum likelihood.

    A step takes a batch of pairs and lowers bits(first) + bits(second), each a mean over the batch; the pairs
    need not be related, and single sentences are paired at random again in every epoch. The first batch's
    first sentences initialise the actnorms. Pairs that fill no batch at an epoch's end are left out.

    Args:
        vectors: Shape (n, dimension): of the pairs' first sentences, or of single sentences; not normalised.
        second: Shape (n, dimension), of the pairs' second sentences.
        config: The flow and its training; the defaults of `FlowConfig`.
        on_step: Told after every step.

    Returns:
        The fitted flow.

    Raises:
        InputError: The vectors do not fit each other or the flow, are too few, or the training diverged.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> flow = fit_flow(rng.normal(size=(200, 8)), config=FlowConfig(width=4))
        >>> flow.bits(torch.randn(3, 8)).shape
        torch.Size([3])
    """
    config = FlowConfig() if config is None else config
    if config.encoder_dropout:
        raise InputError(
            "encoder_dropout needs an encoder, but fit_flow receives vectors", "use add_flow with the encoder"
        )
    first = _tensor("vectors", vectors)
    other = None if second is None else _tensor("second", second)
    if other is not None and other.shape != first.shape:
        raise InputError(
            f"the shapes of first and second sentence vectors differ: {tuple(first.shape)} and "
            f"{tuple(other.shape)}",
            "pass both vectors of every pair",
        )
    return fit_flow_to_epochs(lambda epoch: (first, other), config, on_step=on_step)


def fit_flow_to_epochs(
    pairs_of_epoch: PairsOfEpoch, config: FlowConfig, *, on_step: OnStep | None = None
) -> FlowModule:
    """Fit a flow on vectors that may be made again in every epoch."""
    first, second = pairs_of_epoch(0)
    flow = _new_flow(first.shape[1], config)
    optimizer = _optimizer(flow, config)
    generator = torch.Generator().manual_seed(config.seed)
    step = 0
    for epoch in range(config.epochs):
        if epoch:
            first, second = pairs_of_epoch(epoch)
        rows, other = _paired(first, second, generator)
        batches = list(_batches(len(rows), config.batch_size, generator))
        steps = config.epochs * len(batches)
        for batch in batches:
            step += 1
            bits, norm = _step(flow, optimizer, rows[batch], other[batch], config.clip)
            if not (math.isfinite(bits) and math.isfinite(norm)):
                raise InputError(
                    f"the flow diverged at step {step} of {steps}", "reduce the learning rate or clip"
                )
            if on_step is not None:
                on_step(step, steps, bits)
    logger.info(
        "fitted a flow of %d dimensions in %d steps: %.3f bits per dimension", flow.dimension, step, bits
    )
    flow.eval()
    return flow


def _step(
    flow: FlowModule, optimizer: torch.optim.Optimizer, first: Tensor, second: Tensor, clip: float
) -> tuple[float, float]:
    """Train on a batch of pairs; the bits per dimension before, and the norm of the gradients."""
    if not flow.initialised:
        flow.initialise(first)
    optimizer.zero_grad()
    # The sides are of one size: their common mean is half of what is lowered.
    bits = flow.bits(torch.cat([first, second])).mean()
    (2 * bits).backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(flow.parameters(), clip)
    optimizer.step()
    return float(bits.detach()), float(norm)


def _new_flow(dimension: int, config: FlowConfig) -> FlowModule:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return FlowModule(
            dimension,
            levels=config.levels,
            steps=config.steps,
            width=config.width,
            coupling=config.coupling,
            permutation=config.permutation,
        )


def _optimizer(flow: FlowModule, config: FlowConfig) -> torch.optim.Optimizer:
    if config.optimizer == "bert-adam":
        return BertAdam(
            flow.parameters(),
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=_BETAS,
            epsilon=_EPSILON,
        )
    return torch.optim.AdamW(
        flow.parameters(),
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        betas=_BETAS,
        eps=_EPSILON,
        fused=True,  # a flow is a hundred small tensors, and the loop over them costs more than their sums
    )


def _paired(first: Tensor, second: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    if second is None:
        order = torch.randperm(len(first), generator=generator)[: len(first) // 2 * 2].view(2, -1)
        first, second = first[order[0]], first[order[1]]
    if len(first) < 2:
        raise InputError(
            f"{len(first)} pair of sentences is not enough to fit a flow", "provide two pairs or more"
        )
    return first, second


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    size = min(size, count)
    order = torch.randperm(count, generator=generator)
    yield from torch.split(order[: count // size * size], size)


def _tensor(name: str, vectors: npt.ArrayLike) -> Tensor:
    return torch.from_numpy(checked_vectors(name, vectors).astype(np.float32))
