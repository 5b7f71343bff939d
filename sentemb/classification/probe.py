"""The second stage of SupCL-Seq: a linear head on the vectors of a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from sentemb.training.config import require
from sentemb.training.values import checked, unknown

_LARGEST_WARMUP = 0.1  # share of the steps; BERT's, where the notebooks' fixed number is more than that


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """How the head is trained, by default as in the released notebooks of SupCL-Seq.

    Args:
        learning_rate: Peak learning rate of AdamW.
        weight_decay: Decoupled decay of all weights but biases.
        warmup_steps: Steps over which the learning rate rises, but at most a tenth of all; it then falls
            linearly to 0.
        epochs: How often the head is judged; passes over the vectors, 3 to 5 in the notebooks.
        min_steps: An epoch is several passes where the set is too small for so many steps in all. 390 is what
            five epochs of RTE take, the smallest set on which the paper gains; 0 as in the notebooks.
        batch_size: Vectors per step; the paper does not say.
        clip: Largest gradient norm, the library's default.
        encoder_dropout: Leave the frozen encoder's dropout on, as the released code does, and run the encoder
            anew for every pass.

    Raises:
        InputError: A value lies outside its range.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_steps: int = 50
    epochs: int = 5
    min_steps: int = 390
    batch_size: int = 32
    clip: float = 1.0
    encoder_dropout: bool = False

    def __post_init__(self) -> None:
        for name in ("learning_rate", "weight_decay", "warmup_steps", "min_steps", "clip"):
            require(f"probe_options.{name}", getattr(self, name), at_least=0)
        for name in ("epochs", "batch_size"):
            require(f"probe_options.{name}", getattr(self, name), at_least=1)

    def passes(self, rows: int) -> int:
        """Passes over the vectors in an epoch."""
        return max(1, -(-self.min_steps // (self.epochs * self.steps(rows))))

    def steps(self, rows: int) -> int:
        """Optimizer steps of a pass."""
        return -(-rows // self.batch_size)


def probe_options(values: Mapping[str, Any]) -> ProbeOptions:
    """Check the options of a configuration by name and type."""
    types = get_type_hints(ProbeOptions)
    known = [one.name for one in fields(ProbeOptions)]
    for name in values:
        if name not in known:
            raise unknown("option of the second stage", f"probe_options.{name}", known)
    return ProbeOptions(
        **{name: checked(f"probe_options.{name}", value, types[name]) for name, value in values.items()}
    )


def fit_probe(
    head: nn.Module,
    vectors: Callable[[], Tensor],
    labels: Tensor,
    *,
    options: ProbeOptions,
    score: Callable[[], float] | None,
    keep_best: bool = True,
) -> list[float]:
    """Train a head by cross-entropy on the vectors of a frozen encoder."""
    passes = options.passes(len(labels))
    steps = options.epochs * passes * options.steps(len(labels))
    optimizer = torch.optim.AdamW(_decayed(head, options.weight_decay), lr=options.learning_rate)
    warmup = min(options.warmup_steps, int(_LARGEST_WARMUP * steps))
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, steps)
    scores: list[float] = []
    best = deepcopy(head.state_dict())
    current = vectors()
    for number in range(options.epochs * passes):
        if number and options.encoder_dropout:
            current = vectors()
        head.train()
        for rows in torch.split(torch.randperm(len(labels)), options.batch_size):
            logits = head({"sentence_embedding": current[rows]})  # (b, classes)
            nn.functional.cross_entropy(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        head.eval()
        if score is not None and (number + 1) % passes == 0:
            scores.append(score())
            if scores[-1] > max(scores[:-1], default=float("-inf")):
                best = deepcopy(head.state_dict())
    if scores and keep_best:
        head.load_state_dict(best)
    return scores


def _decayed(head: nn.Module, decay: float) -> list[dict[str, Any]]:
    weights = list(head.parameters())
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
