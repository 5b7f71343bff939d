"""The second stage of SupCL-Seq: a linear head on the vectors of a frozen encoder, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from sentemb.training.config import require


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """How the head is trained, by default as in the released notebooks of SupCL-Seq.

    Args:
        learning_rate: Peak learning rate of AdamW.
        weight_decay: Decoupled decay of all weights but biases.
        warmup_steps: Steps over which the learning rate rises; it then falls linearly to 0.
        epochs: Passes over the vectors; 3 to 5 in the notebooks.
        batch_size: Vectors per step; the paper does not say.
        clip: Largest gradient norm, the library's default.

    Raises:
        InputError: A value lies outside its range.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_steps: int = 50
    epochs: int = 5
    batch_size: int = 32
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "weight_decay", "warmup_steps", "clip"):
            require(f"probe_options.{name}", getattr(self, name), at_least=0)
        for name in ("epochs", "batch_size"):
            require(f"probe_options.{name}", getattr(self, name), at_least=1)


def fit_probe(
    head: nn.Module,
    vectors: Tensor,
    labels: Tensor,
    *,
    options: ProbeOptions,
    score: Callable[[], float] | None,
    keep_best: bool = True,
) -> list[float]:
    """Train a head by cross-entropy on vectors that do not change.

    The released code runs the frozen encoder anew, and with dropout, in every epoch; here it has none and
    runs once.

    Args:
        head: From `{"sentence_embedding": (b, d)}` to logits; its own dropout is at work.
        vectors: `(n, d)`.
        labels: Class numbers, `(n,)`.
        options: How.
        score: Judges the head after each epoch, higher is better.
        keep_best: Keep the weights of the best epoch, of equal ones the first; without scores, the last ones.

    Returns:
        The score of every epoch.
    """
    steps = options.epochs * -(-len(vectors) // options.batch_size)
    decayed = [weight for weight in head.parameters() if weight.ndim > 1]
    others = [weight for weight in head.parameters() if weight.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=options.learning_rate,
    )
    schedule = get_linear_schedule_with_warmup(optimizer, options.warmup_steps, steps)
    scores: list[float] = []
    best = deepcopy(head.state_dict())
    for _ in range(options.epochs):
        head.train()
        order = torch.randperm(len(vectors))
        for start in range(0, len(vectors), options.batch_size):
            rows = order[start : start + options.batch_size]
            logits = head({"sentence_embedding": vectors[rows]})  # (b, classes)
            nn.functional.cross_entropy(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        head.eval()
        if score is not None:
            scores.append(score())
            if scores[-1] > max(scores[:-1], default=float("-inf")):
                best = deepcopy(head.state_dict())
    if scores and keep_best:
        head.load_state_dict(best)
    return scores
