"""Cached SCL and LaCon: loss and gradients of one graph, of the encoder, the head and the label vectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses import CachedCrossEntropySupConLoss, CachedLaConLoss, CrossEntropySupConLoss, LaConLoss
from sentemb.losses.gradient_cache import GradientCache
from sentemb.modules import FusionHead, LabelHead, LinearHead
from tests.losses.training import TRAINERS, train_steps

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 2])
CASES = {
    "scl": (CachedCrossEntropySupConLoss, lambda: LinearHead(16, 4), {}),
    "scl sum, sentence": (
        CachedCrossEntropySupConLoss,
        lambda: FusionHead(16, 4),
        {"reduction": "sum", "representation": "sentence"},
    ),
    "lacon": (CachedLaConLoss, lambda: LabelHead(16, 4), {"heads": 4}),
    "lacon without g": (CachedLaConLoss, lambda: LabelHead(16, 4, layers=0), {"denominator": "all"}),
    "lacon fusion": (CachedLaConLoss, lambda: FusionHead(16, 4), {"average_positives": True}),
}


def build(case: str, model: nn.Module, *, size: int = 2) -> GradientCache:
    loss_class, head, options = CASES[case]
    torch.manual_seed(0)
    loss: GradientCache = loss_class(model, head(), mini_batch_size=size, **options).to(
        next(model.parameters()).dtype
    )
    with torch.no_grad():
        for parameter in loss.owned_parameters():
            parameter.mul_(10)  # away from the small first weights, so that every part counts
    return loss.train()


def total(value: Tensor | dict[str, Tensor]) -> Tensor:
    return sum(value.values()) if isinstance(value, dict) else value


def gradients(loss: nn.Module, value: Tensor) -> dict[str, Tensor]:
    loss.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None}


def in_one_graph(loss: Any, features: dict[str, Any], *, autocast: bool = False) -> Tensor:
    """The loss on what the cached one compares, encoded in its mini-batches but with an ordinary graph."""
    column = {**loss.arrange([features])[0], "autocast": (autocast, torch.bfloat16)}
    rows = [part for part, _ in loss.embed_minibatch_iter(column, with_grad=True, copy_random_state=False)]
    return loss.calculate_loss([rows], LABELS)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float = 1e-7) -> None:
    assert found.keys() == expected.keys()
    assert sum(name.startswith("head.") for name in found) >= 1
    assert len(found) > 30
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=tolerance, rtol=tolerance, msg=name)


@pytest.mark.parametrize("size", [2, 3, 32])
@pytest.mark.parametrize("case", CASES)
def test_cached_gradient_equals_the_plain_one_with_dropout(encoder64, sentences, case, size) -> None:
    loss, features = build(case, encoder64, size=size), encoder64.preprocess(sentences(7))
    torch.manual_seed(1)
    value = loss([features], LABELS)
    found = gradients(loss, value)
    torch.manual_seed(1)
    plain = in_one_graph(loss, features)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain))


@pytest.mark.parametrize("case", CASES)
def test_cached_loss_equals_the_uncached_class(encoder64, sentences, case) -> None:
    cached, features = build(case, encoder64).eval(), encoder64.preprocess(sentences(7))
    uncached = LaConLoss if isinstance(cached, LaConLoss) else CrossEntropySupConLoss
    plain = uncached(encoder64, cached.head, **CASES[case][2]).eval()
    value, expected = cached([features], LABELS), total(plain([features], LABELS))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert_same(gradients(cached, value), gradients(plain, expected))
    with torch.no_grad():
        torch.testing.assert_close(cached([features], LABELS), expected)
    assert isinstance(cached, uncached)


@pytest.mark.parametrize("case", ["scl", "lacon"])
def test_what_the_loss_is_multiplied_by_reaches_all_gradients(encoder64, sentences, case) -> None:
    """Gradient accumulation divides the loss, float16 multiplies it; both weigh the label vectors too."""
    loss, features = build(case, encoder64).eval(), encoder64.preprocess(sentences(7))
    once = gradients(loss, loss([features], LABELS))
    assert_same(gradients(loss, 3 * loss([features], LABELS)), {name: 3 * g for name, g in once.items()})
    first, second = loss([features], LABELS), loss([features], LABELS)
    assert_same(gradients(loss, first + second), {name: 2 * g for name, g in once.items()})
    assert "sentence_embedding" not in features


@pytest.mark.parametrize("case", ["scl", "lacon fusion"])
def test_the_second_pass_has_the_precision_of_the_first(tiny_encoder, sentences, case) -> None:
    loss, features = build(case, tiny_encoder), tiny_encoder.preprocess(sentences(7))
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss([features], LABELS)
    found = gradients(loss, value)
    torch.manual_seed(1)
    plain = in_one_graph(loss, features, autocast=True)
    torch.testing.assert_close(value, plain, atol=1e-6, rtol=1e-6)
    assert_same(found, gradients(loss, plain), tolerance=1e-5)


def test_label_vectors_that_do_not_learn_get_no_gradient(encoder64, sentences) -> None:
    loss = build("lacon", encoder64)
    loss.head.label_vectors.requires_grad_(False)
    found = gradients(loss, loss([encoder64.preprocess(sentences(7))], LABELS))
    assert "head.label_vectors" not in found
    assert "head.projection.0.weight" in found


@pytest.mark.parametrize("trainer", TRAINERS)
def test_trains_in_every_trainer(tiny_encoder, sentences, tmp_path, trainer) -> None:
    loss = build("lacon fusion", tiny_encoder)
    before = loss.head_state()
    train_steps(trainer, tiny_encoder, loss, {"sentence": sentences(12), "label": [0, 1] * 6}, tmp_path)
    assert all(not torch.equal(before[name], weight) for name, weight in loss.head_state().items())


def test_model_card_gets_options_and_both_citations(tiny_encoder) -> None:
    loss = build("lacon", tiny_encoder, size=8)
    assert (loss.get_config_dict()["mini_batch_size"], loss.get_config_dict()["heads"]) == (8, 4)
    assert "2022.naacl-main.103" in loss.citation
    assert "2021.repl4nlp-1.31" in loss.citation
    assert "2011.01403" in build("scl", tiny_encoder).citation


@pytest.mark.parametrize("case", ["scl", "lacon"])
@pytest.mark.parametrize("size", [0, 2.5])
def test_bad_sizes_are_refused(tiny_encoder, case, size) -> None:
    with pytest.raises(InputError, match=r"mini_batch_size of Cached\w+ is"):
        build(case, tiny_encoder, size=size)


def test_bad_batches_are_refused_in_the_name_of_the_cached_loss(tiny_encoder, sentences) -> None:
    features = tiny_encoder.preprocess(sentences(3))
    with pytest.raises(InputError, match="CachedLaConLoss labels single texts, this batch has 2"):
        build("lacon", tiny_encoder)([features, features], LABELS[:3])
    with pytest.raises(InputError, match="CachedCrossEntropySupConLoss met the label 9"):
        build("scl", tiny_encoder)([features], torch.tensor([0, 9, 1]))


def test_what_treats_texts_together_is_refused(tiny_encoder) -> None:
    words = StaticEmbedding(Tokenizer(WordLevel({"a": 0}, unk_token="a")), embedding_dim=16)
    static = SentenceTransformer(modules=[words], device="cpu")
    with pytest.raises(InputError, match="but StaticEmbedding treats its texts together; take LaConLoss"):
        CachedLaConLoss(static, LabelHead(16, 2))
    normalised = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 2))
    with pytest.raises(InputError, match="in parts, but BatchNorm1d treats"):
        CachedCrossEntropySupConLoss(tiny_encoder, normalised)
