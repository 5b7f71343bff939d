"""Self-guided contrast, with hidden states of the frozen encoder and with back-translations as views."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding

from sentemb.errors import InputError
from sentemb.losses import BackTranslationLoss, SelfGuidedLoss, ViewCache
from sentemb.losses.self_guided import sample_layer
from sentemb.training.objective import negatives_per_anchor
from sentemb.training.trainer import fill_view_caches
from tests.losses import loops
from tests.losses.cases import nudge
from tests.losses.training import train_steps

OBJECTIVES = ("base", "opt1", "opt2", "opt3")
TRANSLATED: list[dict[str, Any]] = [
    {"view_encoder": "trained"},
    {"view_encoder": "frozen"},
    {"view_encoder": "frozen", "objective": "opt3"},
]
FORMS: list[dict[str, Any]] = [
    *({"objective": one, "layers": layers} for one in OBJECTIVES for layers in ((0, None), (1, 3))),
    {"objective": "opt3", "layers": (3, None)},
    *({"objective": one, "preset": "released"} for one in OBJECTIVES),
    *({"objective": one, "projection_width": None} for one in ("base", "opt3")),
    *(form | {"preset": preset} for form in TRANSLATED for preset in (None, "released")),
]


def build(model, **options) -> SelfGuidedLoss:
    torch.manual_seed(5)
    kind = BackTranslationLoss if "view_encoder" in options else SelfGuidedLoss
    loss = kind(model, **{"projection_width": 24, "temperature": 0.05, **options})
    return loss.to(next(model.parameters()).dtype)


def name_of(options: dict[str, Any]) -> str:
    return "-".join(str(value) for value in options.values())


def reference(loss: SelfGuidedLoss, columns: list[dict]) -> torch.Tensor:
    """Compute the total loss with loops over sentences and layers, with the same weights."""
    live, fixed = loss.model[0].model, loss.frozen.transformer
    texts, viewed = (
        {name: column[name] for name in ("input_ids", "attention_mask")}
        for column in (columns[0], columns[-1])
    )
    u = [loops.project(c, loss.head) for c in live(**texts).last_hidden_state[:, 0]]
    if getattr(loss, "view_encoder", "frozen") == "trained":
        v = [loops.project(c, loss.head) for c in live(**viewed).last_hidden_state[:, 0]]
    else:
        with torch.no_grad():
            states = fixed(**viewed, output_hidden_states=True).hidden_states
        rows = [
            [
                loops.project(loops.pooled(states[k][i], length, loss.frozen.pooling), loss.head)
                for k in loss.frozen.layers
            ]
            for i, length in enumerate(viewed["attention_mask"].sum(1).tolist())
        ]
        if loss.objective == "opt3":
            v = torch.stack([torch.stack(row) for row in rows])
        else:
            drawn = torch.randint(len(loss.frozen.layers), (len(rows), 1, 1)).flatten().tolist()
            v = [row[k] for row, k in zip(rows, drawn, strict=True)]
    terms = loops.OBJECTIVES[loss.objective](
        u, v, temperature=loss.temperature, released=loss.preset == "released"
    )
    return sum(terms) / len(terms) + loss.drift_weight * loops.drift(live, fixed)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("options", FORMS, ids=name_of)
def test_loss_and_gradients_equal_the_loops(encoder64, sentences, options, size) -> None:
    loss = build(encoder64, **options)
    nudge(loss)
    loss.eval()
    seeds = (0, 1) if "view_encoder" in options else (0,)
    columns = [encoder64.preprocess(sentences(size, seed=seed)) for seed in seeds]
    torch.manual_seed(7)
    value = sum(loss(columns).values())
    torch.manual_seed(7)
    loops.assert_equal(value, reference(loss, columns), loss.parameters())
    assert loss.frozen.pooling == ("mean" if options.get("preset") else "max")
    assert bool(list(loss.owned_parameters())) == (loss.head is not None)


def test_released_dropout_of_the_frozen_encoder_follows_the_model(tiny_encoder, sentences) -> None:
    tiny_encoder.eval()
    loss = build(tiny_encoder, preset="released")
    assert loss.view_cache is None
    features = tiny_encoder.preprocess(sentences(4))
    for training in (True, False):
        tiny_encoder.train(training)  # as a trainer does
        loss([features])
        assert loss.frozen.transformer.training is training
        assert torch.equal(loss.frozen(features), loss.frozen(features)) is not training


def test_train_does_not_bring_dropout_back_into_the_frozen_encoder(tiny_encoder) -> None:
    tiny_encoder.train()
    loss = build(tiny_encoder)
    for call in (loss.train, loss.frozen.train, lambda: loss.train(True)):
        call()
        assert not any(module.training for module in loss.frozen.modules())
        assert loss.model.training


def test_head_is_initialised_as_in_the_paper(tiny_encoder) -> None:
    loss = SelfGuidedLoss(tiny_encoder)
    first, gelu, second, last = loss.head
    sizes = (first.in_features, first.out_features, second.in_features, second.out_features)
    assert sizes == (16, 4096, 4096, 4096)
    assert gelu.approximate == last.approximate == "none"
    for linear in (first, second):
        assert linear.bias.eq(0).all()
        assert abs(linear.weight.std().item() - 0.02) < 2e-4


@pytest.mark.parametrize("optimizer_first", [False, True])
def test_frozen_embeddings_do_not_move_under_weight_decay(tiny_encoder, sentences, optimizer_first) -> None:
    before = copy.deepcopy(tiny_encoder.state_dict())
    optimizer = (
        torch.optim.AdamW(tiny_encoder.parameters(), lr=0.1, weight_decay=0.5) if optimizer_first else None
    )
    loss = build(tiny_encoder)
    optimizer = optimizer or torch.optim.AdamW(loss.parameters(), lr=0.1, weight_decay=0.5)
    loss.train()
    frozen_before = copy.deepcopy(loss.frozen.state_dict())
    sum(loss([tiny_encoder.preprocess(sentences(4))]).values()).backward()
    optimizer.step()
    for name, tensor in tiny_encoder.state_dict().items():
        embeddings = ".embeddings." in name
        assert torch.equal(tensor, before[name]) == (embeddings or ".pooler." in name), name
    for name, tensor in loss.frozen.state_dict().items():
        assert torch.equal(tensor, frozen_before[name])


@pytest.mark.parametrize("objective", ["base", "opt3"])
def test_cached_equals_online(encoder64, sentences, objective) -> None:
    online = build(copy.deepcopy(encoder64), objective=objective, views="online")
    cached = build(encoder64, objective=objective, views="cached")
    texts = sentences(8)
    for batch in (texts[:5], [*texts[3:], texts[4]], texts[:5]):
        features = encoder64.preprocess(batch)
        values = []
        for loss in (online, cached):
            torch.manual_seed(7)
            loss.train()
            values.append(sum(loss([features]).values()))
        torch.testing.assert_close(*values, atol=1e-9, rtol=1e-9)
    assert len(cached.view_cache) == 8


def test_a_shared_cache_serves_another_seed_and_refuses_another_encoder(tiny_encoder, sentences) -> None:
    cache = ViewCache()
    features = tiny_encoder.preprocess(sentences(4))
    build(tiny_encoder, view_cache=cache)([features])
    second = SelfGuidedLoss(tiny_encoder, view_cache=cache, projection_width=8)
    second.frozen.forward = None  # a hit needs no encoder
    second([features])
    with pytest.raises(InputError, match="another encoder, layer range or pooling"):
        build(tiny_encoder, view_cache=cache, layers=(1, None))
    nudge(tiny_encoder)
    with pytest.raises(InputError, match="another encoder"):
        build(tiny_encoder, view_cache=cache)


def test_the_views_that_are_cached_are_those_of_the_back_translations(tiny_encoder) -> None:
    loss = build(tiny_encoder, **TRANSLATED[2])
    rows = Dataset.from_dict(
        {"text": ["a cat", "a dog", "the park"], "back_translation": ["the cat", "the dog", "the dog"]}
    )

    def features_of(batch):
        return [tiny_encoder.preprocess([row[name] for row in batch]) for name in rows.column_names]

    fill_view_caches([loss], rows, features_of)
    assert len(loss.view_cache) == 2
    loss.frozen.forward = None  # a hit needs no encoder
    loss([tiny_encoder.preprocess(rows[name]) for name in rows.column_names])
    assert build(tiny_encoder, **TRANSLATED[0], view_cache=ViewCache()).view_cache is None


def test_negatives_per_anchor(tiny_encoder) -> None:
    losses = [build(tiny_encoder, **options) for options in TRANSLATED]
    assert [negatives_per_anchor(loss, batch_size=16, columns=2) for loss in losses] == [30, 30, 60]


def test_layer_sampler_is_reproducible_redrawn_and_inside_the_range() -> None:
    views = torch.arange(3.0).view(1, 3, 1).expand(500, 3, 2)
    torch.manual_seed(1)
    first, second = sample_layer(views), sample_layer(views)
    torch.manual_seed(1)
    # The sequence that every recorded run drew.
    assert torch.equal(torch.randint(3, (500, 1, 1)), first[..., :1].long())
    assert not torch.equal(first, second)
    assert set(first[:, 0, 0].tolist()) == {0, 1, 2}
    assert first[..., 0].eq(first[..., 1]).all()


def test_a_bfloat16_model_trains_with_a_float32_head(tiny_encoder, sentences) -> None:
    loss = SelfGuidedLoss(tiny_encoder.bfloat16(), projection_width=24)
    value = sum(loss([tiny_encoder.preprocess(sentences(6))]).values())
    value.backward()
    assert value.isfinite()
    assert loss.head[0].weight.dtype == torch.float32


def test_a_state_of_another_head_or_frozen_encoder_is_refused(tiny_encoder) -> None:
    state = build(tiny_encoder).head_state()
    with pytest.raises(InputError, match="shape"):
        build(tiny_encoder, projection_width=8).load_head_state(state)
    nudge(tiny_encoder)
    with pytest.raises(InputError, match="another frozen encoder"):
        build(tiny_encoder).load_head_state(state)


def test_trainers_log_the_components_and_leave_the_frozen_copy_alone(
    tiny_encoder, sentences, tmp_path
) -> None:
    loss = build(tiny_encoder)
    frozen = copy.deepcopy(loss.frozen.state_dict())
    logged = train_steps("upstream", tiny_encoder, loss, {"text": sentences(12)}, tmp_path, logging_steps=1)
    assert {"contrast", "drift"} <= logged[0].keys()
    assert logged[2]["drift"] > 0
    assert all(torch.equal(tensor, frozen[name]) for name, tensor in loss.frozen.state_dict().items())
    without = build(tiny_encoder, drift_weight=0)
    assert without([tiny_encoder.preprocess(sentences(3))]).keys() == {"contrast"}


def test_encoders_that_cannot_be_guided_are_refused(tiny_encoder) -> None:
    wider = SentenceTransformer(modules=[*tiny_encoder, Dense(16, 20)], device="cpu")
    with pytest.raises(InputError, match="20 dimensions and its hidden states 16"):
        SelfGuidedLoss(wider)
    static = StaticEmbedding(tiny_encoder.tokenizer, embedding_dim=8)
    with pytest.raises(InputError, match="starts with StaticEmbedding"):
        SelfGuidedLoss(SentenceTransformer(modules=[static], device="cpu"))
