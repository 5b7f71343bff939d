"""One optimizer step: what it trains, what it leaves alone, and its losses against loops."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import TrainerCallback

from sentemb.multitask.model import MultiTaskModel, TaskHeads
from sentemb.multitask.pcgrad import project_conflicts
from sentemb.multitask.run import MultiTaskLoss, MultiTaskTrainer, TaskEvaluator
from sentemb.multitask.tasks import TASKS, Part, Step, StepPlan
from tests.multitask.toy import NLI, toy_config, toy_sets

SETS = toy_sets()
ROWS = np.arange(4)
ALL: Step = tuple(Part("task", task, ROWS) for task in TASKS)


def loss_of(encoder: SentenceTransformer, row: str = "table2-none", **options: Any) -> MultiTaskLoss:
    torch.manual_seed(0)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model = MultiTaskModel(encoder, TaskHeads(16, 3, dropout=0.0), SETS.sentiment.label_names)
    config = toy_config(row, Path("base"), Path("output"), epochs=1, **options)
    return MultiTaskLoss(model, SETS, config, NLI)


class Recorder(TrainerCallback):
    """Keeps the gradients of every step, and the names of the weights that it changed."""

    def __init__(self, loss: torch.nn.Module) -> None:
        self.loss = loss
        self.gradients: list[dict[str, Tensor]] = []
        self.changed: list[set[str]] = []

    def on_pre_optimizer_step(self, *args: object, **kwargs: object) -> None:
        named = self.loss.named_parameters()
        self.gradients.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        self.before = {name: p.detach().clone() for name, p in self.loss.named_parameters()}

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        after = self.loss.named_parameters()
        names = [name for name, value in after if not torch.equal(value, self.before[name])]
        depth = {name: 3 if name.startswith(("heads.second", "pairs")) else 2 for name in names}
        short = {".".join(name.split(".")[: depth[name]]) for name in names}
        self.changed.append(short - {"encoder.0"})


class FixedPlan(StepPlan):
    steps: list[Step]

    def layout(self, stage: str, generator: np.random.Generator) -> list[Step]:
        return self.steps


def take(loss: MultiTaskLoss, steps: list[Step], folder: Path) -> Recorder:
    FixedPlan.steps = steps
    recorder = Recorder(loss)
    evaluator, plan = TaskEvaluator(loss.tasks, SETS), FixedPlan(loss.config, SETS)
    MultiTaskTrainer(folder, plan=plan, loss=loss, evaluator=evaluator, callbacks=[recorder]).train()
    return recorder


def test_a_step_leaves_alone_what_it_does_not_train(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    parts = [*ALL[:2], Part("contrast", "sentiment", ROWS)]
    # Twice: a weight without a gradient keeps out of Adam's momentum.
    recorder = take(loss_of(tiny_encoder, learning_rate=1e-2), [(part,) for part in parts] * 2, tmp_path)
    expected = [
        {"heads.sentiment"},
        {"heads.first", "heads.second.paraphrase", "heads.bilinear"},
        {"pairs.head.0", "pairs.head.2"},
    ]
    assert recorder.changed == expected * 2


def test_a_step_has_the_gradient_of_the_mean_of_tasks(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    loss = loss_of(tiny_encoder, learning_rate=0.0)
    weight = tiny_encoder[0].model.embeddings.word_embeddings.weight
    expected = sum(torch.autograd.grad(loss(part), weight)[0] for part in ALL) / 3
    recorder = take(loss, [ALL], tmp_path)
    (found,) = (value for name, value in recorder.gradients[0].items() if "word_embeddings" in name)
    torch.testing.assert_close(found, expected)


def test_a_step_with_gradient_surgery_has_the_projected_gradients(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    loss = loss_of(tiny_encoder, gradient_surgery=True, learning_rate=0.0)
    names, weights = zip(*loss.named_parameters(), strict=True)
    gradients = [torch.autograd.grad(loss(part), weights, allow_unused=True) for part in ALL]
    expected = project_conflicts(gradients, generator=random.Random("1/0"))  # seed and number of the step
    found = take(loss, [ALL], tmp_path).gradients[0]
    assert found.keys() == {name for name, value in zip(names, expected, strict=True) if value is not None}
    for name, value in zip(names, expected, strict=True):
        if value is not None:
            torch.testing.assert_close(found[name], value)


def info_nce(anchors: Tensor, candidates: Tensor) -> list[float]:
    """Losses over all candidates, of which the i-th is the positive of anchor i."""
    losses = []
    for index, anchor in enumerate(anchors):
        cosines = [torch.cosine_similarity(anchor, one, dim=0).item() for one in candidates]
        total = sum(math.exp(cosine / 0.05) for cosine in cosines)
        losses.append(-math.log(math.exp(cosines[index] / 0.05) / total))
    return losses


def test_contrast_by_loops(tiny_encoder: SentenceTransformer) -> None:
    loss = loss_of(tiny_encoder)
    tiny_encoder.eval()
    texts = [list(SETS.paraphrase.texts[:4]), list((SETS.paraphrase.pairs or [])[:4])]
    with torch.no_grad():
        first, second, *triple = (
            loss.pairs.head(tiny_encoder.encode(one, convert_to_tensor=True)).double()
            for one in [*texts, *NLI]
        )
        unlabelled, labelled = loss.contrast(texts), loss.contrast(texts, torch.tensor([1, 0, 1, 0]))
        single, triples = loss.contrast(texts[:1]), loss.contrast(NLI)
    sides = [np.mean(info_nce(side, side)) for side in (first, second)]
    assert single.item() == pytest.approx(sides[0], rel=1e-4)
    assert unlabelled.item() == pytest.approx(np.mean(sides), rel=1e-4)  # each side a batch of its own
    signed = np.array([1, -1, 1, -1]) * info_nce(first, second)
    assert labelled.item() == pytest.approx(signed.mean(), rel=1e-4)
    candidates = torch.cat(triple[1:])  # positives, then hard negatives
    assert triples.item() == pytest.approx(np.mean(info_nce(triple[0], candidates)), rel=1e-4)
