"""Gradient cache: loss and gradients equal those of one graph, for the encoder and the loss's weights."""

from __future__ import annotations

import logging

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
    CrossEntropySupConLoss,
    GradientCache,
    LaConLoss,
    SelfGuidedLoss,
    SimCSELoss,
    cached,
)
from sentemb.modules import LabelHead
from tests.losses import cases
from tests.losses.cases import CACHEABLE, assert_same, batch, gradients, total
from tests.losses.training import TRAINERS, train_steps

SOME = ("simcse hard negatives", "supcl-seq", "ce supcon", "lacon fusion")


def build(name: str, model: nn.Module, *, size: int = 3) -> GradientCache:
    return GradientCache(cases.widen(cases.build(name, model)), mini_batch_size=size).train()


def in_one_graph(loss: GradientCache, columns: list[dict], labels: Tensor | None) -> Tensor:
    """Compute the loss on the same mini-batches as the cached one, but with an ordinary graph."""
    rows = [
        [part for part, _ in loss.embed_minibatch_iter(column, with_grad=True, copy_random_state=False)]
        for column in loss.arrange(loss.loss.views_of(columns))
    ]
    return loss.calculate_loss(rows, labels)


@pytest.mark.parametrize(
    ("name", "size"), [*((name, 3) for name in CACHEABLE), *((name, 32) for name in SOME)]
)
def test_cached_gradient_equals_that_of_one_graph_with_dropout(encoder64, name, size) -> None:
    """The plain graph encodes the same mini-batches, so both draw the same dropout masks."""
    loss, (columns, labels) = build(name, encoder64, size=size), batch(name, encoder64)
    torch.manual_seed(1)
    value = loss(columns, labels)
    found = gradients(loss, value)
    if cases.CASES[name].options.get("preset") == "released" and hasattr(loss.loss, "released"):
        loss.loss.released.has_trained.fill_(False)  # as before the first step
    torch.manual_seed(1)
    plain = in_one_graph(loss, columns, labels)
    torch.testing.assert_close(value, plain, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss, plain), tolerance=1e-7)
    assert len(found) > 30
    assert any(key.startswith("head.") for key in found) == bool(list(loss.loss.owned_parameters()))


@pytest.mark.parametrize("name", CACHEABLE)
def test_cached_loss_equals_the_loss_itself(encoder64, name) -> None:
    loss = build(name, cases.without_dropout(encoder64)).eval()
    columns, labels = batch(name, encoder64)
    value = loss(columns, labels)
    found, statistics = gradients(loss, value), getattr(loss.loss, "statistics", None)
    expected = total(loss.loss(columns, labels))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    assert_same(found, gradients(loss.loss, expected), tolerance=1e-7)
    assert statistics == getattr(loss.loss, "statistics", None)
    with torch.no_grad():
        torch.testing.assert_close(loss(columns, labels), expected)
    assert all("sentence_embedding" not in column for column in columns)


@pytest.mark.parametrize("name", SOME)
def test_what_the_loss_is_multiplied_by_reaches_all_gradients(encoder64, name) -> None:
    """Gradient accumulation divides the loss, float16 multiplies it; both scale label vectors too."""
    loss, (columns, labels) = build(name, encoder64).eval(), batch(name, encoder64)
    once = gradients(loss, loss(columns, labels))
    assert_same(gradients(loss, 3 * loss(columns, labels)), {name: 3 * g for name, g in once.items()})
    both = loss(columns, labels) + loss(columns, labels)
    assert_same(gradients(loss, both), {name: 2 * g for name, g in once.items()})


@pytest.mark.parametrize("name", SOME)
def test_the_second_pass_has_the_precision_of_the_first(tiny_encoder, name) -> None:
    loss, (columns, labels) = build(name, tiny_encoder), batch(name, tiny_encoder)
    found = []
    for compute in (loss, lambda *given: in_one_graph(loss, *given)):
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16):
            value = compute(columns, labels)
        found.append({"value": value.detach(), **gradients(loss, value)})
    assert_same(*found, tolerance=1e-5)


def test_mini_batches_hold_texts_of_similar_length(encoder64) -> None:
    loss, (columns, _) = build("simcse pairs", encoder64), batch("simcse pairs", encoder64)
    for column, arranged in zip(columns, loss.arrange(loss.loss.views_of(columns)), strict=True):
        lengths = arranged["attention_mask"].sum(1).tolist()
        assert lengths == sorted(column["attention_mask"].sum(1).tolist(), reverse=True)
        assert len(set(lengths)) > 1
        assert sorted(arranged["input_ids"].tolist()) == sorted(column["input_ids"].tolist())


def test_label_vectors_that_do_not_learn_get_no_gradient(encoder64) -> None:
    loss = build("lacon", encoder64)
    loss.loss.head.label_vectors.requires_grad_(False)
    found = gradients(loss, loss(*batch("lacon", encoder64)))
    assert "head.label_vectors" not in found
    assert "head.projection.0.weight" in found


def test_the_dropouts_of_the_encoder_are_its_own_again(encoder64) -> None:
    loss = build("supcl-seq", encoder64)
    loss(*batch("supcl-seq", encoder64)).backward()
    assert all(module.p == 0.1 for module in encoder64.modules() if isinstance(module, nn.Dropout))


def test_identical_views_are_warned_about(tiny_encoder, caplog) -> None:
    loss = build("simcse", tiny_encoder).eval()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            loss(*batch("simcse", tiny_encoder))
    assert caplog.text.count("two views of every sentence are identical") == 1


@pytest.mark.parametrize(
    ("name", "trainer"), [*(("lacon fusion", one) for one in TRAINERS), ("simcse hard negatives", "sentemb")]
)
def test_trains_with_its_head(tiny_encoder, tmp_path, name, trainer) -> None:
    loss = build(name, tiny_encoder)
    before = loss.loss.head_state()
    columns: dict[str, list] = {str(n): one + one[:4] for n, one in enumerate(cases.texts_of(name))}
    train_steps(trainer, tiny_encoder, loss, columns | {"label": [0, 1, 2, 3] * 3}, tmp_path)
    assert all(not torch.equal(before[name], weight) for name, weight in loss.loss.head_state().items())


def test_upstream_takes_it_for_a_cached_loss(tiny_encoder) -> None:
    """Matryoshka has to decorate the loss of a cached one, not the forward of the model."""
    loss = build("simcse pairs", tiny_encoder)
    assert uses_gradient_cache(loss)
    nested = MatryoshkaLoss(tiny_encoder, loss, matryoshka_dims=[16, 8])
    value = nested(batch("simcse pairs", tiny_encoder)[0], torch.zeros(8))
    value.backward()
    assert value.isfinite()


def test_model_card_gets_options_and_both_citations(tiny_encoder) -> None:
    loss = build("simcse", tiny_encoder)
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


def test_what_cannot_be_cached_is_refused(tiny_encoder) -> None:
    for size in (0, -1, 2.5):
        with pytest.raises(InputError, match="mini_batch_size of GradientCache is"):
            build("ce supcon", tiny_encoder, size=size)
    columns, labels = batch("ce supcon", tiny_encoder)
    with pytest.raises(InputError, match="LaConLoss needs single texts, but this batch has 2"):
        build("lacon", tiny_encoder)(columns * 2, labels)
    with pytest.raises(InputError, match="CrossEntropySupConLoss got the label 4"):
        build("ce supcon", tiny_encoder)(columns, labels + 1)
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
