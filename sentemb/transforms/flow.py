"""Fit a flow on vectors: BERT-flow's training, in which the encoder takes no part."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sentemb.errors import InputError
from sentemb.modules.flow import FlowModule
from sentemb.training.config import FlowConfig as FlowConfig
from sentemb.training.recipes import get_recipe
from sentemb.transforms.whitening import checked_vectors

logger = logging.getLogger(__name__)

OnStep = Callable[[int, int, float], Any]
"""Called after every step: the step from 1, the steps in all, and the bits per dimension of its sentences."""
PairsOfEpoch = Callable[[int], tuple[Tensor, Tensor | None]]
"""The vectors of an epoch's first and second sentences, each (pairs, dimension); or of single sentences."""

# BERT's Adam; the bias-corrected one has them too, so that the two differ in nothing else.
_BETAS, _EPSILON = (0.9, 0.999), 1e-6


def flow_config(preset: Literal["paper", "released"] = "paper", **changes: Any) -> FlowConfig:
    """Return a configuration from a preset of the recipe `flow`.

    `released` reproduces bohanli/BERT-flow: BERT's Adam, and an encoder with active dropout. The shape of the
    flow is the same in both presets. The input of the released code, called the last two layers, is in fact
    the first and the last layer: choose the pooling `first-last` of the encoder for it. Two things differ
    from the released code: pairs are shuffled as a whole, not through a buffer of 1,000, and random numbers
    are from torch.

    Args:
        preset: `paper` or `released`.
        **changes: Fields of `FlowConfig` that differ from it.

    Returns:
        The configuration.

    Raises:
        InputError: There is no such preset or field, or a value does not fit.

    Example:
        >>> flow_config("released", seed=7).optimizer
        'bert-adam'
    """
    if preset not in ("paper", "released"):
        raise InputError(f"unknown preset {preset!r}", "use paper or released")
    values = get_recipe("flow").values(preset)
    fields = {name: value for name, value in values.items() if name in FlowConfig.model_fields}
    return FlowConfig(**fields | changes)


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
    first sentences initialise the actnorms. Pairs that fill no batch at an epoch's end are skipped.

    Args:
        vectors: Shape (n, dimension): of the pairs' first sentences, or of single sentences; not normalised.
        second: Shape (n, dimension), of the pairs' second sentences.
        config: The flow and its training; the defaults of `FlowConfig`.
        on_step: Called after every step.

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

    def tensor(name: str, vectors: npt.ArrayLike) -> Tensor:
        return torch.from_numpy(checked_vectors(name, vectors).astype(np.float32))

    first = tensor("vectors", vectors)
    other = None if second is None else tensor("second", second)
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        shape = ("levels", "steps", "width", "coupling", "permutation")
        flow = FlowModule(first.shape[1], **{name: getattr(config, name) for name in shape})
    optimizer = _optimizer(flow, config)
    generator = torch.Generator().manual_seed(config.seed)
    step = 0
    for epoch in range(config.epochs):
        if epoch:
            first, second = pairs_of_epoch(epoch)
        rows, other = _paired(first, second, generator)
        size = min(config.batch_size, len(rows))
        whole = torch.randperm(len(rows), generator=generator)[: len(rows) // size * size]
        batches = torch.split(whole, size)
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
    """Train on a batch of pairs; return the bits per dimension before, and the norm of the gradients."""
    if not flow.initialised:
        flow.initialise(first)
    optimizer.zero_grad()
    # The sides are of one size: their common mean is half of what is lowered.
    bits = flow.bits(torch.cat([first, second])).mean()
    (2 * bits).backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(flow.parameters(), clip)
    optimizer.step()
    return float(bits.detach()), float(norm)


def _optimizer(flow: FlowModule, config: FlowConfig) -> torch.optim.Optimizer:
    options: dict[str, Any] = {
        "lr": config.learning_rate,
        "weight_decay": config.weight_decay,
        "betas": _BETAS,
        "eps": _EPSILON,
    }
    if config.optimizer == "bert-adam":
        return BertAdam(flow.parameters(), **options)
    # A flow is a hundred small tensors, and the loop over them costs more than their sums.
    return torch.optim.AdamW(flow.parameters(), fused=True, **options)


def _paired(first: Tensor, second: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    if second is None:
        order = torch.randperm(len(first), generator=generator)[: len(first) // 2 * 2].view(2, -1)
        first, second = first[order[0]], first[order[1]]
    if len(first) < 2:
        raise InputError(
            f"{len(first)} pair of sentences is not enough to fit a flow", "provide two pairs or more"
        )
    return first, second


class BertAdam(torch.optim.Optimizer):
    """The optimizer that BERT was released with: Adam without bias correction, with decoupled weight decay.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   w = w - lr (m / (sqrt(v) + eps) + decay w)

    The first steps are larger than those of Adam: about 3 lr instead of lr.
    """

    def __init__(self, parameters: Iterable[Tensor], **options: Any) -> None:
        super().__init__(parameters, options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
                mean: Tensor = state["mean"].lerp_(weight.grad, 1 - beta1)
                square: Tensor = state["square"].lerp_(weight.grad.square(), 1 - beta2)
                change = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weight
                weight.sub_(group["lr"] * change)
