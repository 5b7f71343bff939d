"""One optimizer step: what it trains, what it leaves alone, and its losses against loops."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from torch import Tensor
from transformers import TrainerCallback

from sentemb.losses import ParaphraseContrastLoss
from sentemb.multitask import MultiTaskModel, TaskHeads
from sentemb.multitask.contrast import embed
from sentemb.multitask.loss import MultiTaskLoss
from sentemb.multitask.pcgrad import project_conflicts
from sentemb.multitask.plan import StepPlan
from sentemb.multitask.schedule import Part, Step
from sentemb.multitask.session import TaskEvaluator
from sentemb.multitask.stages import Stage
from sentemb.multitask.tasks import TASKS
from sentemb.multitask.trainer import MultiTaskTrainer
from tests.multitask.toy import NLI, toy_config, toy_sets

SETS = toy_sets()
ROWS = np.arange(4)


def loss_of(encoder: SentenceTransformer, **options: object) -> MultiTaskLoss:
    torch.manual_seed(0)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model = MultiTaskModel(encoder, TaskHeads(16, 3, dropout=0.0), SETS.sentiment.label_names)
    config = toy_config("table2-given", Path("base"), Path("output"), **options)
    return MultiTaskLoss(model, ParaphraseContrastLoss(encoder), SETS, config, nli=NLI)


class Recorder(TrainerCallback):
    """Keeps the gradients of every step, and the names of the weights that it changed."""

    def __init__(self, weights: torch.nn.Module) -> None:
        self.weights = weights
        self.gradients: list[dict[str, Tensor]] = []
        self.changed: list[set[str]] = []

    def on_pre_optimizer_step(self, *args: object, **kwargs: object) -> None:
        named = self.weights.named_parameters()
        self.gradients.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        self.before = {name: value.clone() for name, value in self.weights.state_dict().items()}

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        after = self.weights.state_dict().items()
        names = [name for name, value in after if not torch.equal(value, self.before[name])]
        depth = {name: 3 if name.startswith("heads.second") else 2 for name in names}
        short = {".".join(name.split(".")[: depth[name]]) for name in names}
        self.changed.append(short - {"encoder.0"})


def take(loss: MultiTaskLoss, steps: list[Step], folder: Path, *, learning_rate: float) -> Recorder:
    model = MultiTaskModel(loss.encoder, loss.heads, SETS.sentiment.label_names)
    plan = StepPlan([Stage("stage", 1, learning_rate, lambda _: steps)], loss.config)
    recorder = Recorder(loss.trained())
    arguments = SentenceTransformerTrainingArguments(
        str(folder), num_train_epochs=1, per_device_train_batch_size=1, max_grad_norm=0, use_cpu=True,
        save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = MultiTaskTrainer(
        model, arguments, plan=plan, loss=loss, evaluator=TaskEvaluator(model, SETS), callbacks=[recorder]
    )
    trainer.train()
    return recorder


def test_a_step_leaves_alone_what_it_does_not_train(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    parts = [
        Part("task", "sentiment", ROWS),
        Part("task", "paraphrase", ROWS),
        Part("contrast", "sentiment", ROWS),
    ]
    # Twice: a weight without a gradient keeps out of Adam's momentum.
    recorder = take(
        loss_of(tiny_encoder), [Step((part,)) for part in parts] * 2, tmp_path, learning_rate=1e-2
    )
    expected = [
        {"heads.sentiment"},
        {"heads.first", "heads.second.paraphrase", "heads.bilinear"},
        {"contrast.0", "contrast.2"},
    ]
    assert recorder.changed == expected * 2


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_a_step_on_several_tasks_has_the_gradient_of_their_mean_or_sum(
    tiny_encoder: SentenceTransformer, tmp_path: Path, combine: str
) -> None:
    loss = loss_of(tiny_encoder)
    parts = tuple(Part("task", task, ROWS) for task in TASKS)
    weight = tiny_encoder[0].model.embeddings.word_embeddings.weight
    expected = sum(torch.autograd.grad(loss(part), weight)[0] for part in parts)
    recorder = take(loss, [Step(parts, combine=combine)], tmp_path, learning_rate=0.0)
    assert isinstance(expected, Tensor)
    (found,) = (value for name, value in recorder.gradients[0].items() if "word_embeddings" in name)
    torch.testing.assert_close(found, expected / (3 if combine == "mean" else 1))


def test_a_step_with_gradient_surgery_has_the_projected_gradients(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    loss = loss_of(tiny_encoder, gradient_surgery=True)
    parts = tuple(Part("task", task, ROWS) for task in TASKS)
    names, weights = zip(*loss.trained().named_parameters(), strict=True)
    gradients = [torch.autograd.grad(loss(part), weights, allow_unused=True) for part in parts]
    expected = project_conflicts(gradients, generator=random.Random("1/0"))  # seed and number of the step
    found = take(loss, [Step(parts)], tmp_path, learning_rate=0.0).gradients[0]
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
    contrast = loss_of(tiny_encoder).contrast
    tiny_encoder.eval()
    texts = [list(SETS.paraphrase.texts[:4]), list((SETS.paraphrase.pairs or [])[:4])]
    assert contrast.pairs.head is not None
    with torch.no_grad():
        first, second = (contrast.pairs.head(embed(tiny_encoder, one)).double() for one in texts)
        triple = [contrast.pairs.head(embed(tiny_encoder, one)).double() for one in NLI]
        unlabelled, labelled = contrast(texts), contrast(texts, torch.tensor([1, 0, 1, 0]))
        single, triples = contrast(texts[:1]), contrast(NLI)
    sides = [np.mean(info_nce(side, side)) for side in (first, second)]
    assert single.item() == pytest.approx(sides[0], rel=1e-4)
    assert unlabelled.item() == pytest.approx(np.mean(sides), rel=1e-4)  # each side a batch of its own
    signed = np.array([1, -1, 1, -1]) * info_nce(first, second)
    assert labelled.item() == pytest.approx(signed.mean(), rel=1e-4)
    candidates = torch.cat(triple[1:])  # positives, then hard negatives
    assert triples.item() == pytest.approx(np.mean(info_nce(triple[0], candidates)), rel=1e-4)
