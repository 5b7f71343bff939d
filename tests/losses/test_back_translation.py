from __future__ import annotations

import copy

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.losses import BackTranslationLoss, SelfGuidedLoss, ViewCache
from sentemb.training.objective import negatives_per_anchor
from sentemb.training.trainer import fill_view_caches
from tests.losses import loops
from tests.losses.test_self_guided import gradients, nudge

VARIANTS = [("trained", "base"), ("frozen", "base"), ("frozen", "opt3")]


def build(model: SentenceTransformer, view_encoder: str = "trained", **options) -> BackTranslationLoss:
    torch.manual_seed(5)
    settings = {"projection_width": 24, "temperature": 0.05, **options}
    loss = BackTranslationLoss(model, view_encoder=view_encoder, **settings)
    return loss.to(next(model.parameters()).dtype)


def reference(loss: BackTranslationLoss, model: SentenceTransformer, texts: dict, translations: dict):
    """Compute the total loss with loops over sentences and layers, with the same weights."""
    live, fixed = model[0].model, loss.frozen.transformer
    names = ("input_ids", "attention_mask")
    u = [
        loops.project(vector, loss.head)
        for vector in live(**{name: texts[name] for name in names}).last_hidden_state[:, 0]
    ]
    inputs = {name: translations[name] for name in names}
    if loss.view_encoder == "trained":
        v = [loops.project(vector, loss.head) for vector in live(**inputs).last_hidden_state[:, 0]]
    else:
        with torch.no_grad():
            states = fixed(**inputs, output_hidden_states=True).hidden_states
        lengths = inputs["attention_mask"].sum(1).tolist()
        rows = [
            [loops.project(loops.pooled(state[i], n, loss.frozen.pooling), loss.head) for state in states]
            for i, n in enumerate(lengths)
        ]
        if loss.objective == "opt3":
            v = torch.stack([torch.stack(row) for row in rows])
        else:
            drawn = torch.randint(len(states), (len(rows), 1, 1)).flatten().tolist()
            v = [row[k] for row, k in zip(rows, drawn, strict=True)]
    terms = loops.OBJECTIVES[loss.objective](
        u, v, temperature=loss.temperature, released=loss.preset == "released"
    )
    return sum(terms) / len(terms) + loss.drift_weight * loops.drift(live, fixed)


@pytest.mark.parametrize("preset", [None, "released"])
@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(("view_encoder", "objective"), VARIANTS)
def test_loss_and_gradients_equal_the_loops(
    encoder64, sentences, view_encoder, objective, size, preset
) -> None:
    loss = build(encoder64, view_encoder, objective=objective, preset=preset)
    nudge(loss)
    loss.eval()
    columns = [encoder64.preprocess(sentences(size, seed=seed)) for seed in (0, 1)]
    torch.manual_seed(7)
    value = sum(loss(columns).values())
    torch.manual_seed(7)
    expected = reference(loss, encoder64, *columns)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    found, wanted = gradients(loss, value), gradients(loss, expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], atol=1e-9, rtol=1e-9, msg=name)


def test_only_the_trained_encoder_gets_gradient_from_the_back_translations(encoder64, sentences) -> None:
    columns = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    for view_encoder in ("trained", "frozen"):
        loss = build(copy.deepcopy(encoder64), view_encoder, drift_weight=0)
        loss.eval()
        sides = []
        compute = loss.compute_loss_from_embeddings

        def record(embeddings, labels=None, sides=sides, compute=compute):
            sides.extend(embeddings)
            return compute(embeddings, labels)

        loss.compute_loss_from_embeddings = record
        loss(columns)
        texts, translations = sides
        assert texts.requires_grad
        assert translations.requires_grad is (view_encoder == "trained")


def test_frozen_views_of_equal_texts_are_those_of_self_guidance(encoder64, sentences) -> None:
    features = encoder64.preprocess(sentences(6))
    loss = build(copy.deepcopy(encoder64), "frozen", objective="opt3")
    torch.manual_seed(5)
    guided = SelfGuidedLoss(encoder64, projection_width=24, temperature=0.05).double()
    for one in (loss, guided):
        nudge(one)
        one.eval()
    both = loss([features, features]), guided([features])
    torch.testing.assert_close(*both)


@pytest.mark.parametrize(("view_encoder", "objective"), VARIANTS)
def test_identical_back_translations_and_repeated_rows_are_finite(
    tiny_encoder, sentences, view_encoder, objective
) -> None:
    loss = build(tiny_encoder, view_encoder, objective=objective, temperature=0.01)
    loss.train()
    texts = sentences(3)
    features = tiny_encoder.preprocess([*texts, texts[0]])
    value = sum(loss([features, features]).values())
    value.backward()
    assert value.isfinite()
    assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


def test_the_views_that_are_cached_are_those_of_the_back_translations(tiny_encoder) -> None:
    from datasets import Dataset

    loss = build(tiny_encoder, "frozen", objective="opt3")
    rows = Dataset.from_dict(
        {"text": ["a cat", "a dog", "the park"], "back_translation": ["the cat", "the dog", "the dog"]}
    )

    def features_of(batch):
        return [tiny_encoder.preprocess([row[name] for row in batch]) for name in rows.column_names]

    fill_view_caches([loss], rows, features_of)
    assert len(loss.view_cache) == 2
    loss.frozen.forward = None  # a hit needs no encoder
    loss([tiny_encoder.preprocess(rows[name]) for name in rows.column_names])
    assert build(tiny_encoder).view_cache is None
    assert build(tiny_encoder, view_cache=ViewCache()).view_cache is None


def test_negatives_per_anchor(tiny_encoder) -> None:
    counts = [
        negatives_per_anchor(build(tiny_encoder, side, objective=objective), batch_size=16, columns=2)
        for side, objective in VARIANTS
    ]
    assert counts == [30, 30, 60]


def test_user_errors_are_named(tiny_encoder, sentences) -> None:
    features = tiny_encoder.preprocess(sentences(3))
    with pytest.raises(InputError, match="has 1 text column; select both"):
        build(tiny_encoder)([features])
    with pytest.raises(InputError, match="has 3 text columns"):
        build(tiny_encoder)([features] * 3)
    with pytest.raises(InputError, match="opt3 needs several; set view_encoder='frozen'"):
        build(tiny_encoder, objective="opt3")
    with pytest.raises(InputError, match="view_encoder of BackTranslationLoss is 'both'; choose one of"):
        build(tiny_encoder, "both")
    assert all(p.requires_grad for p in tiny_encoder[0].model.encoder.parameters())
