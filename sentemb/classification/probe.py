"""The second stage of SupCL-Seq: a linear head on the vectors of a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from sentemb.training.config import ProbeOptions
from sentemb.training.resumable import decay_groups

_LARGEST_WARMUP = 0.1  # share of the steps; BERT's, where the notebooks' fixed number is more than that


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
    groups = decay_groups(head.parameters(), options.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=options.learning_rate)
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
