"""Gradient cache: loss and gradients equal those of one graph, for the encoder and the loss's weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses import uses_gradient_cache
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, MatryoshkaLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses import (
    BackTranslationLoss,
    CrossEntropyContrastLoss,
    CrossEntropyLoss,
    CrossEntropySupConLoss,
    EncoderLoss,
    FocalInfoNCELoss,
    GradientCache,
    LaConLoss,
    LeamLoss,
    ParaphraseContrastLoss,
    RankCSELoss,
    RankEncoderLoss,
    SelfGuidedLoss,
    SimCSELoss,
    SimCSEPlusPlusLoss,
    SNCSELoss,
    SupCLSeqLoss,
    SupConLoss,
    cached,
)
from sentemb.modules import FusionHead, LabelHead, LeamHead, LinearHead, LsanHead
from tests.losses.training import TRAINERS, train_steps

CLASSES = torch.tensor([0, 1, 0, 2, 1, 0, 2])
PAIRS = torch.tensor([[1, 5, 5], [0, 5, 9], [1, 2, 2], [1, 5, 5], [0, 9, 2], [0, 7, 7], [1, 3, 3]])


@dataclass(frozen=True)
class Case:
    loss: Callable[..., EncoderLoss]
    options: dict[str, Any] = field(default_factory=dict)
    head: Callable[[], nn.Module] | None = None
    columns: int = 1
    labels: Tensor | None = None


TAUGHT = torch.randn(7, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
CASES = {
    "simcse": Case(SimCSELoss),
    "simcse++": Case(SimCSEPlusPlusLoss),
    "focal": Case(FocalInfoNCELoss),
    "rankcse": Case(RankCSELoss, labels=TAUGHT),
    "rank encoder": Case(
        RankEncoderLoss, {"corpus": TAUGHT.flip(0), "bounds": (-1.0, 0.99), "weight": 1.0}, labels=TAUGHT
    ),
    "sncse": Case(SNCSELoss, {"weight": 1.0, "smallest": 0.5, "largest": 0.6}, columns=2),
    "simcse pairs": Case(SimCSELoss, {"head": None}, columns=2),
    "simcse triples": Case(SimCSELoss, columns=3),
    "paraphrases signed": Case(ParaphraseContrastLoss, columns=2, labels=PAIRS),
    "paraphrases denominator": Case(
        ParaphraseContrastLoss, {"negatives": "denominator"}, columns=2, labels=PAIRS
    ),
    "paraphrases ignored": Case(ParaphraseContrastLoss, {"negatives": "ignored"}, columns=2, labels=PAIRS),
    "supcon": Case(SupConLoss, labels=CLASSES),
    "supcon two views": Case(SupConLoss, columns=2),
    "supcl-seq": Case(SupCLSeqLoss, {"dropouts": (0.0, 0.3, 0.3)}, labels=CLASSES),
    "supcl-seq released": Case(SupCLSeqLoss, {"preset": "released"}, labels=CLASSES),
    "supcl-seq without labels": Case(SupCLSeqLoss),
    "ce": Case(CrossEntropyLoss, head=lambda: LinearHead(16, 4), labels=CLASSES),
    "ce on views": Case(
        CrossEntropyLoss, {"dropouts": (0.0, 0.1)}, head=lambda: LsanHead(16, 4), labels=CLASSES
    ),
    "ce contrast": Case(CrossEntropyContrastLoss, head=lambda: LinearHead(16, 4), labels=CLASSES),
    "scl": Case(CrossEntropySupConLoss, head=lambda: LinearHead(16, 4), labels=CLASSES),
    "scl sum": Case(
        CrossEntropySupConLoss,
        {"reduction": "sum"},
        head=lambda: FusionHead(16, 4),
        labels=CLASSES,
    ),
    "lacon": Case(LaConLoss, {"heads": 4}, head=lambda: LabelHead(16, 4), labels=CLASSES),
    "lacon without g": Case(
        LaConLoss, {"denominator": "all"}, head=lambda: LabelHead(16, 4, layers=0), labels=CLASSES
    ),
    "lacon fusion": Case(LaConLoss, head=lambda: FusionHead(16, 4), labels=CLASSES),
    "leam": Case(LeamLoss, head=lambda: LeamHead(16, 4, hidden=8, dropout=0.0), labels=CLASSES),
}
SOME = ("simcse triples", "supcl-seq", "scl", "lacon fusion")
NO_HEAD = ("simcse pairs", "supcon", "supcl-seq")


def build(name: str, model: nn.Module, *, size: int = 3) -> GradientCache:
    case = CASES[name]
    torch.manual_seed(0)
    heads = [] if case.head is None else [case.head()]
    loss = case.loss(model, *heads, **case.options).to(next(model.parameters()).dtype)
    with torch.no_grad():
        for parameter in loss.owned_parameters():
            parameter.mul_(10)  # away from the small first weights, so that every part counts
    return GradientCache(loss, mini_batch_size=size).train()


def columns_of(name: str, model: Any, sentences: Any) -> list[dict[str, Any]]:
    return [model.preprocess(sentences(7, seed=seed)) for seed in range(CASES[name].columns)]


def total(value: Tensor | dict[str, Tensor]) -> Tensor:
    return sum(value.values()) if isinstance(value, dict) else value


def gradients(loss: nn.Module, value: Tensor) -> dict[str, Tensor]:
    loss.zero_grad()
    value.backward()
    named = loss.named_parameters()
    return {name.removeprefix("loss."): p.grad.clone() for name, p in named if p.grad is not None}


def in_one_graph(loss: GradientCache, columns: list[dict[str, Any]], labels: Tensor | None) -> Tensor:
    """Compute the loss on the same mini-batches as the cached one, but with an ordinary graph."""
    rows = [
        [part for part, _ in loss.embed_minibatch_iter(column, with_grad=True, copy_random_state=False)]
        for column in loss.arrange(loss.loss.views_of(columns))
    ]
    return loss.calculate_loss(rows, labels)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float = 1e-7) -> None:
    assert found.keys() == expected.keys()
    assert len(found) > 30
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=tolerance, rtol=tolerance, msg=name)


@pytest.mark.parametrize("size", [3, 32])
@pytest.mark.parametrize("name", CASES)
def test_cached_gradient_equals_that_of_one_graph_with_dropout(encoder64, sentences, name, size) -> None:
    """The plain graph encodes the same mini-batches, so both draw the same dropout masks."""
    loss, columns = build(name, encoder64, size=size), columns_of(name, encoder64, sentences)
    torch.manual_seed(1)
    value = loss(columns, CASES[name].labels)
    found = gradients(loss, value)
    if CASES[name].options.get("preset") == "released":
        loss.loss.released.has_trained.fill_(False)  # as before the first step
    torch.manual_seed(1)
    plain = in_one_graph(loss, columns, CASES[name].labels)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain))
    assert any(key.startswith("head.") for key in found) == bool(list(loss.loss.owned_parameters()))


@pytest.mark.parametrize("name", CASES)
def test_cached_loss_equals_the_loss_itself(encoder64, sentences, name) -> None:
    for module in encoder64.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    loss, columns = build(name, encoder64).eval(), columns_of(name, encoder64, sentences)
    labels = CASES[name].labels
    value = loss(columns, labels)
    found, statistics = gradients(loss, value), getattr(loss.loss, "statistics", None)
    expected = total(loss.loss(columns, labels))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss.loss, expected))
    assert statistics == getattr(loss.loss, "statistics", None)
    with torch.no_grad():
        torch.testing.assert_close(loss(columns, labels), expected)
    assert all("sentence_embedding" not in column for column in columns)


@pytest.mark.parametrize("name", SOME)
def test_what_the_loss_is_multiplied_by_reaches_all_gradients(encoder64, sentences, name) -> None:
    """Gradient accumulation divides the loss, float16 multiplies it; both scale label vectors too."""
    loss, columns = build(name, encoder64).eval(), columns_of(name, encoder64, sentences)
    labels = CASES[name].labels
    once = gradients(loss, loss(columns, labels))
    assert_same(gradients(loss, 3 * loss(columns, labels)), {name: 3 * g for name, g in once.items()})
    first, second = loss(columns, labels), loss(columns, labels)
    assert_same(gradients(loss, first + second), {name: 2 * g for name, g in once.items()})


@pytest.mark.parametrize("name", SOME)
def test_the_second_pass_has_the_precision_of_the_first(tiny_encoder, sentences, name) -> None:
    loss, columns = build(name, tiny_encoder), columns_of(name, tiny_encoder, sentences)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(columns, CASES[name].labels)
    found = gradients(loss, value)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        plain = in_one_graph(loss, columns, CASES[name].labels)
    torch.testing.assert_close(value, plain, atol=1e-6, rtol=1e-6)
    assert_same(found, gradients(loss, plain), tolerance=1e-5)


def test_mini_batches_hold_texts_of_similar_length(encoder64, sentences) -> None:
    loss, columns = build("simcse pairs", encoder64), columns_of("simcse pairs", encoder64, sentences)
    for column, arranged in zip(columns, loss.arrange(loss.loss.views_of(columns)), strict=True):
        lengths = arranged["attention_mask"].sum(1).tolist()
        assert lengths == sorted(column["attention_mask"].sum(1).tolist(), reverse=True)
        assert len(set(lengths)) > 1
        assert sorted(arranged["input_ids"].tolist()) == sorted(column["input_ids"].tolist())


def test_label_vectors_that_do_not_learn_get_no_gradient(encoder64, sentences) -> None:
    loss = build("lacon", encoder64)
    loss.loss.head.label_vectors.requires_grad_(False)
    found = gradients(loss, loss([encoder64.preprocess(sentences(7))], CLASSES))
    assert "head.label_vectors" not in found
    assert "head.projection.0.weight" in found


def test_the_dropouts_of_the_encoder_are_its_own_again(encoder64, sentences) -> None:
    loss = build("supcl-seq", encoder64)
    loss([encoder64.preprocess(sentences(7))], CLASSES).backward()
    assert all(module.p == 0.1 for module in encoder64.modules() if isinstance(module, nn.Dropout))


def test_identical_views_are_warned_about(tiny_encoder, sentences, caplog) -> None:
    loss = build("simcse", tiny_encoder).eval()
    with caplog.at_level(logging.WARNING):
        loss([tiny_encoder.preprocess(sentences(4))])
        loss([tiny_encoder.preprocess(sentences(4))])
    assert caplog.text.count("two views of every sentence are identical") == 1


@pytest.mark.parametrize("trainer", TRAINERS)
def test_trains_in_every_trainer(tiny_encoder, sentences, tmp_path, trainer) -> None:
    loss = build("lacon fusion", tiny_encoder)
    before = loss.loss.head_state()
    train_steps(trainer, tiny_encoder, loss, {"sentence": sentences(12), "label": [0, 1] * 6}, tmp_path)
    assert all(not torch.equal(before[name], weight) for name, weight in loss.loss.head_state().items())


@pytest.mark.parametrize("name", ["simcse triples", "paraphrases signed", "supcon", "supcl-seq"])
def test_trains_with_its_head(tiny_encoder, sentences, tmp_path, name) -> None:
    loss = build(name, tiny_encoder)
    before = loss.loss.head_state()
    columns: dict[str, list] = {str(i): sentences(12, seed=i) for i in range(CASES[name].columns)}
    train_steps("sentemb", tiny_encoder, loss, columns | {"label": [0, 1] * 6}, tmp_path)
    assert all(not torch.equal(before[name], weight) for name, weight in loss.loss.head_state().items())


def test_upstream_takes_it_for_a_cached_loss(tiny_encoder, sentences) -> None:
    """Matryoshka has to decorate the loss of a cached one, not the forward of the model."""
    loss = build("simcse pairs", tiny_encoder)
    assert uses_gradient_cache(loss)
    nested = MatryoshkaLoss(tiny_encoder, loss, matryoshka_dims=[16, 8])
    value = nested(columns_of("simcse pairs", tiny_encoder, sentences), torch.zeros(7))
    value.backward()
    assert value.isfinite()


def test_model_card_gets_options_and_both_citations(tiny_encoder) -> None:
    loss = build("simcse triples", tiny_encoder)
    assert loss.get_config_dict() == {
        "loss": "SimCSELoss",
        "temperature": 0.05,
        "head": "train-only",
        "gather_across_devices": True,
        "mini_batch_size": 3,
    }
    assert "2021.emnlp-main.552" in loss.citation
    assert "2021.repl4nlp-1.31" in loss.citation


def test_the_helper_wraps_where_a_size_is_given(tiny_encoder) -> None:
    loss = SimCSELoss(tiny_encoder)
    assert cached(loss, None) is loss
    wrapped = cached(loss, 8)
    assert isinstance(wrapped, GradientCache)
    assert (wrapped.loss, wrapped.mini_batch_size) == (loss, 8)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_bad_sizes_are_refused(tiny_encoder, size) -> None:
    with pytest.raises(InputError, match="mini_batch_size of GradientCache is"):
        build("scl", tiny_encoder, size=size)


def test_bad_batches_are_refused_in_the_name_of_the_loss(tiny_encoder, sentences) -> None:
    features = tiny_encoder.preprocess(sentences(3))
    with pytest.raises(InputError, match="LaConLoss needs single texts, but this batch has 2"):
        build("lacon", tiny_encoder)([features, features], CLASSES[:3])
    with pytest.raises(InputError, match="CrossEntropySupConLoss got the label 9"):
        build("scl", tiny_encoder)([features], torch.tensor([0, 9, 1]))


def test_what_cannot_be_cached_is_refused(tiny_encoder) -> None:
    for guided in (SelfGuidedLoss, BackTranslationLoss):
        with pytest.raises(
            InputError, match=f"{guided.__name__} does not support a gradient cache: it compares a batch"
        ):
            GradientCache(guided(tiny_encoder, projection_width=None))
    with pytest.raises(InputError, match="CosineSimilarityLoss because it is not a loss of sentemb"):
        GradientCache(CosineSimilarityLoss(tiny_encoder))
    words = StaticEmbedding(Tokenizer(WordLevel({"a": 0}, unk_token="a")), embedding_dim=16)
    static = SentenceTransformer(modules=[words], device="cpu")
    with pytest.raises(InputError, match="but StaticEmbedding needs all its texts at once; use LaConLoss"):
        GradientCache(LaConLoss(static, LabelHead(16, 2)))
    normalised = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 2))
    with pytest.raises(InputError, match="in parts, but BatchNorm1d needs"):
        GradientCache(CrossEntropySupConLoss(tiny_encoder, normalised))
