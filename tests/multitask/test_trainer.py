"""One optimizer step: what it trains, what it leaves alone, and its losses against loops."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb.losses import ParaphraseContrastLoss
from sentemb.multitask import MultiTaskModel, TaskHeads
from sentemb.multitask.contrast import Contrast, embed
from sentemb.multitask.schedule import Part, Step
from sentemb.multitask.tasks import TASKS
from sentemb.multitask.trainer import MultiTaskTrainer
from tests.multitask.toy import NLI, toy_config, toy_sets

SETS = toy_sets()
ROWS = np.arange(4)


def trainer_of(encoder: SentenceTransformer, **options: object) -> MultiTaskTrainer:
    torch.manual_seed(0)
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model = MultiTaskModel(encoder, TaskHeads(16, 3, dropout=0.0), SETS.sentiment.label_names)
    config = toy_config("table2-given", Path("base"), Path("output"), **options)
    contrast = Contrast(ParaphraseContrastLoss(encoder))
    return MultiTaskTrainer(model, contrast, SETS, config, nli=NLI)


def changed(trainer: MultiTaskTrainer, step: Step) -> set[str]:
    before = {name: value.clone() for name, value in trainer.weights.state_dict().items()}
    trainer.take(step, learning_rate=1e-2, number=0)
    after = trainer.weights.state_dict()
    names = {name for name, value in before.items() if not torch.equal(value, after[name])}
    return {".".join(name.split(".")[: 3 if name.startswith("heads.second") else 2]) for name in names} - {
        "encoder.0"
    }


def test_a_step_leaves_alone_what_it_does_not_train(tiny_encoder: SentenceTransformer) -> None:
    trainer = trainer_of(tiny_encoder)
    pair = {"heads.first", "heads.second.paraphrase", "heads.bilinear"}
    # Also after steps on other objectives: a weight without a gradient keeps out of Adam's momentum.
    for _ in range(2):
        assert changed(trainer, Step((Part("task", "sentiment", ROWS),))) == {"heads.sentiment"}
        assert changed(trainer, Step((Part("task", "paraphrase", ROWS),))) == pair
        assert changed(trainer, Step((Part("contrast", "sentiment", ROWS),))) == {"contrast.0", "contrast.2"}


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_a_step_on_several_tasks_has_the_gradient_of_their_mean_or_sum(
    tiny_encoder: SentenceTransformer, combine: str
) -> None:
    trainer = trainer_of(tiny_encoder)
    parts = tuple(Part("task", task, ROWS) for task in TASKS)
    weight = trainer.model.encoder[0].model.embeddings.word_embeddings.weight
    expected = sum(torch.autograd.grad(trainer.loss(part), weight)[0] for part in parts)
    trainer.take(Step(parts, combine=combine), learning_rate=0.0, number=0)
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(weight.grad, expected / (3 if combine == "mean" else 1))


def test_gradient_surgery_without_conflict_is_the_mean(tiny_encoder: SentenceTransformer) -> None:
    trainer = trainer_of(tiny_encoder, gradient_surgery=True)
    part = Part("task", "sentiment", ROWS)
    trainer.take(Step((part,)), learning_rate=0.0, number=0)
    weight = trainer.model.encoder[0].model.embeddings.word_embeddings.weight
    alone = weight.grad.clone()
    trainer.surgery.backward([trainer.loss(part)] * 2, generator=random.Random(0))
    torch.testing.assert_close(weight.grad, alone)


def info_nce(anchors: Tensor, candidates: Tensor) -> list[float]:
    """Losses over all candidates, of which the i-th is the positive of anchor i."""
    losses = []
    for index, anchor in enumerate(anchors):
        cosines = [torch.cosine_similarity(anchor, one, dim=0).item() for one in candidates]
        total = sum(math.exp(cosine / 0.05) for cosine in cosines)
        losses.append(-math.log(math.exp(cosines[index] / 0.05) / total))
    return losses


def test_contrast_by_loops(tiny_encoder: SentenceTransformer) -> None:
    contrast = trainer_of(tiny_encoder).contrast
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
