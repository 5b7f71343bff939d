from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, StaticEmbedding, Transformer

from sentemb.errors import InputError
from sentemb.losses import SelfGuidedLoss, ViewCache
from sentemb.losses.self_guided import opt3, sample_layer
from tests.losses import loops

OBJECTIVES = ("base", "opt1", "opt2", "opt3")


def build(model, **options) -> SelfGuidedLoss:
    torch.manual_seed(5)
    loss = SelfGuidedLoss(model, **{"projection_width": 24, **options})
    return loss.to(next(model.parameters()).dtype)


def nudge(module: torch.nn.Module) -> None:
    """Move the trainable parameters away from the frozen copy, so that the weight regulariser is not 0."""
    torch.manual_seed(6)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))


def reference(
    loss: SelfGuidedLoss, model: SentenceTransformer, features: dict, *, released: bool
) -> torch.Tensor:
    """Compute the total loss with loops over sentences and layers, with the same weights."""
    live, fixed = model[0].model, loss.frozen.transformer
    inputs = {name: features[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        states = fixed(**inputs, output_hidden_states=True).hidden_states
    lengths = features["attention_mask"].sum(1).tolist()
    views = [
        [loops.pooled(states[k][i], n, loss.frozen.pooling) for k in loss.frozen.layers]
        for i, n in enumerate(lengths)
    ]
    c = live(**inputs).last_hidden_state[:, 0]
    if loss.objective == "opt3":
        v = torch.stack([torch.stack([loops.project(h, loss.head) for h in row]) for row in views])
    else:
        drawn = torch.randint(len(loss.frozen.layers), (len(views), 1, 1)).flatten().tolist()
        v = [loops.project(row[k], loss.head) for row, k in zip(views, drawn, strict=True)]
    u = [loops.project(vector, loss.head) for vector in c]
    terms = loops.OBJECTIVES[loss.objective](u, v, temperature=loss.temperature, released=released)
    return sum(terms) / len(terms) + loss.drift_weight * loops.drift(live, fixed)


def gradients(loss: torch.nn.Module, value: torch.Tensor) -> dict[str, torch.Tensor]:
    named = {name: p for name, p in loss.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(named, found, strict=True) if gradient is not None}


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("layers", [(0, None), (1, 3), (3, None)])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_and_gradients_equal_the_loops(encoder64, sentences, objective, layers, size) -> None:
    loss = build(encoder64, objective=objective, layers=layers, temperature=0.05)
    nudge(loss)
    loss.eval()
    features = encoder64.preprocess(sentences(size))
    torch.manual_seed(7)
    value = sum(loss([features]).values())
    torch.manual_seed(7)
    expected = reference(loss, encoder64, features, released=False)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    found, wanted = gradients(loss, value), gradients(loss, expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], atol=1e-9, rtol=1e-9, msg=name)


@pytest.mark.parametrize("objective", ["base", "opt3"])
def test_without_a_head_the_vectors_themselves_are_compared(encoder64, sentences, objective) -> None:
    loss = build(encoder64, objective=objective, projection_width=None, temperature=0.05)
    nudge(loss)
    loss.eval()
    features = encoder64.preprocess(sentences(5))
    torch.manual_seed(7)
    value = sum(loss([features]).values())
    torch.manual_seed(7)
    expected = reference(loss, encoder64, features, released=False)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    wanted = gradients(loss, expected)
    assert not list(loss.owned_parameters())
    for name, gradient in gradients(loss, value).items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-9, rtol=1e-9, msg=name)
    assert loss.get_config_dict()["projection_width"] is None
    loss.load_head_state(loss.head_state())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_float32_agrees_with_the_float64_loops(tiny_encoder, sentences, objective) -> None:
    loss = build(tiny_encoder, objective=objective, temperature=0.05)
    nudge(loss)
    loss.eval()
    features = tiny_encoder.preprocess(sentences(16))
    torch.manual_seed(7)
    value = sum(loss([features]).values())
    loss.double()
    torch.manual_seed(7)
    expected = reference(loss, tiny_encoder, features, released=False)
    torch.testing.assert_close(value.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_released_preset_scales_base_drops_for_opt2_and_pools_by_mean(
    encoder64, sentences, objective, size
) -> None:
    loss = build(encoder64, objective=objective, preset="released", temperature=0.05)
    nudge(loss)
    loss.eval()
    assert loss.frozen.pooling == "mean"
    features = encoder64.preprocess(sentences(size))
    torch.manual_seed(7)
    value = sum(loss([features]).values())
    torch.manual_seed(7)
    torch.testing.assert_close(
        value, reference(loss, encoder64, features, released=True), atol=1e-9, rtol=1e-9
    )


def test_released_preset_leaves_dropout_in_the_frozen_encoder_and_caches_nothing(
    tiny_encoder, sentences
) -> None:
    loss = build(tiny_encoder, preset="released")
    assert loss.view_cache is None
    loss.train()
    features = tiny_encoder.preprocess(sentences(4))
    assert not torch.equal(loss.frozen(features), loss.frozen(features))
    loss.eval()
    assert torch.equal(loss.frozen(features), loss.frozen(features))


def test_released_dropout_follows_the_model_that_a_trainer_puts_in_training_mode(
    tiny_encoder, sentences
) -> None:
    tiny_encoder.eval()
    loss = build(tiny_encoder, preset="released")
    features = tiny_encoder.preprocess(sentences(4))
    for training in (True, False):
        tiny_encoder.train(training)
        loss([features])
        assert loss.frozen.transformer.training is training


def test_train_does_not_bring_dropout_back_into_the_frozen_encoder(tiny_encoder) -> None:
    tiny_encoder.train()
    loss = build(tiny_encoder)
    for call in (loss.train, loss.frozen.train, lambda: loss.train(True)):
        call()
        assert not any(module.training for module in loss.frozen.modules())
        assert loss.model.training


def test_copy_is_taken_before_freezing_and_shares_nothing(tiny_encoder) -> None:
    loss = build(tiny_encoder)
    assert not any(p.requires_grad for p in loss.frozen.parameters())
    live = {p.data_ptr() for p in tiny_encoder.parameters()}
    assert live.isdisjoint({p.data_ptr() for p in loss.frozen.parameters()})
    layers = [p for name, p in tiny_encoder.named_parameters() if ".layer." in name]
    assert layers
    assert all(p.requires_grad for p in layers)


def test_head_is_initialised_as_in_the_paper(tiny_encoder) -> None:
    loss = SelfGuidedLoss(tiny_encoder)
    first, gelu, second, last = loss.head
    assert (first.in_features, first.out_features, second.in_features, second.out_features) == (
        16,
        4096,
        4096,
        4096,
    )
    assert gelu.approximate == last.approximate == "none"
    for linear in (first, second):
        assert linear.bias.eq(0).all()
        assert abs(linear.weight.std().item() - 0.02) < 2e-4


def test_head_receives_gradient_from_both_sides(encoder64, sentences) -> None:
    loss = build(encoder64)
    loss.eval()
    features = encoder64.preprocess(sentences(4))
    views = loss.frozen(features)
    c = encoder64(dict(features))["sentence_embedding"].detach()
    whole = loss.compute_loss_from_embeddings([c, views])["contrast"]
    u, v = loss.head(c).detach(), loss.head(views).detach()
    one_side = opt3(loss.head(c), v, temperature=0.01).mean()
    other_side = opt3(u, loss.head(views), temperature=0.01).mean()
    weight = loss.head[2].weight
    total, first, second = (torch.autograd.grad(x, weight)[0] for x in (whole, one_side, other_side))
    assert first.norm() > 0
    assert second.norm() > 0
    torch.testing.assert_close(total, first + second)


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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_cached_equals_online(encoder64, sentences, objective) -> None:
    online = build(copy.deepcopy(encoder64), objective=objective, views="online", temperature=0.05)
    cached = build(encoder64, objective=objective, views="cached", temperature=0.05)
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


def test_cached_equals_online_in_float32(tiny_encoder, sentences) -> None:
    online = build(copy.deepcopy(tiny_encoder), views="online")
    cached = build(tiny_encoder)
    for loss in (online, cached):
        loss.eval()
    texts = sentences(12)
    cached([tiny_encoder.preprocess(texts[6:])])
    features = tiny_encoder.preprocess(texts)
    first, second = (loss([features])["contrast"] for loss in (online, cached))
    torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-6)


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


def test_order_of_the_batch_does_not_change_the_loss(encoder64, sentences) -> None:
    loss = build(encoder64)
    loss.eval()
    texts = sentences(6)
    first, second = (loss([encoder64.preprocess(batch)])["contrast"] for batch in (texts, texts[::-1]))
    torch.testing.assert_close(first, second, atol=1e-9, rtol=1e-9)


def test_layer_sampler_is_reproducible_redrawn_and_inside_the_range(tiny_encoder, sentences) -> None:
    views = torch.arange(3.0).view(1, 3, 1).expand(500, 3, 2)
    torch.manual_seed(1)
    first, second = sample_layer(views), sample_layer(views)
    torch.manual_seed(1)
    assert torch.equal(sample_layer(views), first)
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


def test_saved_model_is_native_and_keeps_no_flag(tiny_encoder, sentences, tmp_path: Path) -> None:
    loss = build(tiny_encoder)
    loss.train()
    sum(loss([tiny_encoder.preprocess(sentences(4))]).values()).backward()
    tiny_encoder.save(str(tmp_path / "model"))
    restored = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert [type(module) for module in restored] == [Transformer, Pooling]
    assert not restored[0].model.config.output_hidden_states
    assert "all_layer_embeddings" not in restored(restored.preprocess(["a cat"]))
    assert not any("head" in name for name in restored.state_dict())


def test_head_state_round_trip_and_refusals(tiny_encoder, sentences) -> None:
    loss, other = build(tiny_encoder), build(tiny_encoder)
    nudge(loss.head)
    state = loss.head_state()
    assert {name for name in state if name.startswith("head.")} == {
        "head.0.weight",
        "head.0.bias",
        "head.2.weight",
        "head.2.bias",
    }
    other.load_head_state(state)
    for first, second in zip(loss.owned_parameters(), other.owned_parameters(), strict=True):
        assert torch.equal(first, second)
        assert first.data_ptr() != second.data_ptr()
    with pytest.raises(InputError, match="shape"):
        build(tiny_encoder, projection_width=8).load_head_state(state)
    nudge(tiny_encoder)
    with pytest.raises(InputError, match="another frozen encoder"):
        build(tiny_encoder).load_head_state(state)


def test_trainer_swaps_the_model_and_leaves_the_frozen_copy_alone(
    tiny_encoder, sentences, tmp_path: Path
) -> None:
    from datasets import Dataset

    loss = build(tiny_encoder)
    frozen = copy.deepcopy(loss.frozen.state_dict())
    head = loss.head[0].weight.clone()
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        learning_rate=1e-2,
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        tiny_encoder, arguments, train_dataset=Dataset.from_dict({"text": sentences(12)}), loss=loss
    )
    trainer.train()
    assert {"contrast", "drift"} <= trainer.state.log_history[0].keys()
    assert trainer.state.log_history[2]["drift"] > 0
    assert all(torch.equal(tensor, frozen[name]) for name, tensor in loss.frozen.state_dict().items())
    assert not torch.equal(loss.head[0].weight, head)


def test_without_drift_there_is_one_component(tiny_encoder, sentences) -> None:
    value = build(tiny_encoder, drift_weight=0)([tiny_encoder.preprocess(sentences(3))])
    assert value.keys() == {"contrast"}


def test_encoders_that_cannot_be_guided_are_refused(tiny_encoder) -> None:
    wider = SentenceTransformer(modules=[*tiny_encoder, Dense(16, 20)], device="cpu")
    with pytest.raises(InputError, match="20 dimensions and its hidden states 16"):
        SelfGuidedLoss(wider)
    static = StaticEmbedding(tiny_encoder.tokenizer, embedding_dim=8)
    with pytest.raises(InputError, match="starts with StaticEmbedding"):
        SelfGuidedLoss(SentenceTransformer(modules=[static], device="cpu"))
