"""The second stage: enough steps for few rows, one run of the encoder unless its dropout is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sentemb.classification.classifier import compute
from sentemb.classification.fit import fit_probe
from sentemb.modules import LinearHead, load
from sentemb.training.config import ProbeOptions


def two_clouds(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    labels = torch.arange(rows) % 2
    centres = torch.zeros(2, 64)
    centres[0, :32], centres[1, 32:] = 1, 1
    return torch.tanh(centres[labels] + 0.5 * torch.randn(rows, 64)), labels


def test_twenty_rows_a_class_are_enough() -> None:
    vectors, labels = two_clouds(40)
    losses = {}
    for min_steps in (0, ProbeOptions().min_steps):
        torch.manual_seed(1)
        head = LinearHead(64, 2)
        options = ProbeOptions(min_steps=min_steps)
        fit_probe(head, lambda: vectors, labels, options=options, score=None)
        head.eval()
        logits = head({"sentence_embedding": vectors}).detach()
        losses[min_steps] = float(torch.nn.functional.cross_entropy(logits, labels))
    assert losses[0] > 0.5  # next to ln 2: ten steps, all of them warm-up once
    assert losses[390] < 0.1


def test_the_warm_up_is_at_most_a_tenth_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    step = torch.optim.AdamW.step

    def look(self: torch.optim.AdamW, *arguments: Any) -> Any:
        seen.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", look)
    vectors, labels = two_clouds(32)
    for options, peak in ((ProbeOptions(min_steps=100), 10), (ProbeOptions(min_steps=1000), 50)):
        seen.clear()
        fit_probe(LinearHead(64, 2), lambda: vectors, labels, options=options, score=None)
        assert seen.index(max(seen)) == peak
        assert max(seen) == options.learning_rate


def test_the_head_is_evaluated_once_an_epoch_and_the_first_best_is_kept() -> None:
    vectors, labels = two_clouds(40)
    head = LinearHead(64, 2)
    kept: list[torch.Tensor] = []
    scores = iter([0.5, 0.9, 0.9, 0.2, 0.1])

    def score() -> float:
        kept.append(head.linear.weight.detach().clone())
        return next(scores)

    scored = fit_probe(head, lambda: vectors, labels, options=ProbeOptions(), score=score)
    assert scored == [0.5, 0.9, 0.9, 0.2, 0.1]
    assert torch.equal(head.linear.weight, kept[1])


@pytest.mark.parametrize("dropout", [False, True])
def test_the_encoder_runs_once_unless_its_dropout_is_on(dropout: bool) -> None:
    vectors, labels = two_clouds(64)
    calls = 0

    def count() -> torch.Tensor:
        nonlocal calls
        calls += 1
        return vectors

    options = ProbeOptions(epochs=3, min_steps=0, encoder_dropout=dropout)
    fit_probe(LinearHead(64, 2), count, labels, options=options, score=None)
    assert calls == (3 if dropout else 1)


def test_dropout_is_on_only_when_asked_for(small_bert: Path) -> None:
    encoder = load(small_bert, pooling="cls", device="cpu").train()
    encoder[1].eval()

    def vectors(*, dropout: bool) -> Any:
        return compute(
            encoder,
            ["cat dog", "cat dog"],
            lambda output: output["sentence_embedding"],
            max_length=8,
            dropout=dropout,
        )

    assert np.array_equal(*vectors(dropout=False))
    assert not np.array_equal(*vectors(dropout=True))
    assert encoder[0].training
    assert not encoder[1].training
