from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertForMaskedLM

from sentemb.errors import InputError
from sentemb.losses import GradientCache, SimCSELoss
from tests.losses import loops


def build(model, **options) -> SimCSELoss:
    torch.manual_seed(5)
    loss = SimCSELoss(model, **options)
    return loss.to(next(model.parameters()).dtype)


def record_batches(model: SentenceTransformer) -> list[torch.Tensor]:
    """Record the sentence vectors of every later forward pass of the model."""
    seen: list[torch.Tensor] = []
    model.register_forward_hook(
        lambda _, __, output: seen.append(output["sentence_embedding"].detach().clone())
    )
    return seen


def test_same_batch_same_mask(tiny_encoder) -> None:
    """One forward pass of the doubled batch, in which every row has its own dropout mask."""
    loss = build(tiny_encoder)
    loss.train()
    batches = record_batches(tiny_encoder)
    loss([tiny_encoder.preprocess(["a cat sat on the mat"] * 3)])
    (vectors,) = batches
    assert vectors.shape == (6, 16)
    for row in range(6):
        for other in range(row):
            assert not torch.equal(vectors[row], vectors[other])


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("head", ["train-only", None])
def test_one_column_equals_the_loops(encoder64, sentences, head, size) -> None:
    loss = build(encoder64, head=head)
    loss.train()
    batches = record_batches(encoder64)
    value = loss([encoder64.preprocess(sentences(size))])
    vectors = batches[0]
    if head:
        linear = loss.head[0]
        vectors = torch.stack([torch.tanh(linear.weight @ vector + linear.bias) for vector in vectors])
    expected = loops.simcse(vectors[:size], vectors[size:], [], temperature=0.05, weight=0.0)
    torch.testing.assert_close(value, sum(expected) / size, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_more_columns_equal_the_loops_with_gradients(encoder64, sentences, columns, weight) -> None:
    loss = build(encoder64, hard_negative_weight=weight)
    loss.eval()
    features = [encoder64.preprocess(sentences(5, seed=seed)) for seed in range(columns)]
    value = loss(features)
    vectors = [loss.head(encoder64(dict(f))["sentence_embedding"]) for f in features]
    expected = sum(loops.simcse(vectors[0], vectors[1], vectors[2:], temperature=0.05, weight=weight)) / 5
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    parameters = [p for name, p in loss.named_parameters() if ".pooler." not in name]
    for found, wanted in zip(
        torch.autograd.grad(value, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-9)


def test_float32_agrees_with_float64(tiny_encoder, sentences) -> None:
    loss = build(tiny_encoder)
    loss.eval()
    features = [tiny_encoder.preprocess(sentences(16, seed=seed)) for seed in (0, 1)]
    single = loss(features)
    torch.testing.assert_close(single.double(), loss.double()(features), atol=1e-5, rtol=1e-5)


def test_padding_does_not_change_the_loss(encoder64, sentences) -> None:
    loss = build(encoder64)
    loss.eval()
    features = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    padded = [
        {k: torch.nn.functional.pad(v, (0, 9)) if isinstance(v, torch.Tensor) else v for k, v in f.items()}
        for f in features
    ]
    torch.testing.assert_close(loss(features), loss(padded), atol=1e-9, rtol=1e-9)


def test_one_sentence_has_loss_zero_connected_to_the_graph(tiny_encoder) -> None:
    loss = build(tiny_encoder)
    loss.train()
    value = loss([tiny_encoder.preprocess(["a cat"])])
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-6)
    assert loss.head[0].weight.grad is not None


@pytest.mark.parametrize("mode", ["no dropout", "evaluation mode"])
def test_identical_views_are_warned_about_once(tiny_encoder, sentences, caplog, mode) -> None:
    loss = build(tiny_encoder)
    loss.train(mode == "no dropout")
    for module in tiny_encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    features = tiny_encoder.preprocess(sentences(3))
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            loss([features])
        assert not caplog.text
        loss([features])
        loss([features])
    assert caplog.text.count("two views of every sentence are identical") == 1


def test_dropout_is_not_warned_about(tiny_encoder, sentences, caplog) -> None:
    loss = build(tiny_encoder)
    loss.train()
    with caplog.at_level(logging.WARNING):
        loss([tiny_encoder.preprocess(sentences(3))])
    assert not caplog.text


def test_the_two_layer_head(encoder64, sentences) -> None:
    loss = build(encoder64, head="two-layer").eval()
    features = [encoder64.preprocess(sentences(4, seed=seed)) for seed in (0, 1)]
    inner, _, outer = loss.head
    plain = [encoder64(dict(column))["sentence_embedding"] for column in features]
    heads = [(v @ inner.weight.T + inner.bias).relu() @ outer.weight.T + outer.bias for v in plain]
    expected = sum(loops.simcse(*heads, [], temperature=0.05, weight=0.0)) / 4
    torch.testing.assert_close(loss(features), expected, atol=1e-9, rtol=1e-9)
    assert loss.get_config_dict()["head"] == "two-layer"


def test_saved_model_never_holds_the_train_only_head(tiny_encoder, tmp_path: Path) -> None:
    build(tiny_encoder)
    tiny_encoder.save(str(tmp_path / "model"))
    restored = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert [type(module) for module in restored] == [Transformer, Pooling]


def test_head_state_round_trip(tiny_encoder) -> None:
    first, second = build(tiny_encoder), SimCSELoss(tiny_encoder)
    second.load_head_state(first.head_state())
    assert torch.equal(first.head[0].weight, second.head[0].weight)
    with pytest.raises(InputError, match=r"missing none, unknown \['head.0.bias', 'head.0.weight'\]"):
        SimCSELoss(tiny_encoder, head=None).load_head_state(first.head_state())
    assert not list(SimCSELoss(tiny_encoder, head=None).owned_parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_finite(tiny_encoder, sentences, dtype) -> None:
    loss = build(tiny_encoder)
    loss.train()
    with torch.autocast("cpu", dtype):
        value = loss([tiny_encoder.preprocess(sentences(6))])
    value.backward()
    assert value.isfinite()
    assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


def test_trains_in_the_upstream_trainer(tiny_encoder, sentences, tmp_path: Path) -> None:
    from datasets import Dataset

    loss = build(tiny_encoder)
    head, layer = (
        loss.head[0].weight.clone(),
        tiny_encoder[0].model.encoder.layer[0].output.dense.weight.clone(),
    )
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=4,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=1e-3,
    )
    data = Dataset.from_dict(
        {"anchor": sentences(8), "positive": sentences(8, seed=1), "negative": sentences(8, seed=2)}
    )
    SentenceTransformerTrainer(tiny_encoder, arguments, train_dataset=data, loss=loss).train()
    assert not torch.equal(loss.head[0].weight, head)
    assert not torch.equal(tiny_encoder[0].model.encoder.layer[0].output.dense.weight, layer)


def test_model_card_gets_options_and_citation(tiny_encoder) -> None:
    loss = build(tiny_encoder, temperature=0.1)
    assert loss.get_config_dict()["temperature"] == 0.1
    assert loss.scale == 10
    assert "2021.emnlp-main.552" in loss.citation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature of SimCSELoss is -1.0"),
        ({"head": "mlp"}, "head of SimCSELoss is 'mlp'; choose one of"),
        ({"hard_negative_weight": float("inf")}, "hard_negative_weight"),
        ({"mlm_weight": -0.1}, "mlm_weight"),
    ],
)
def test_bad_options_are_refused(tiny_encoder, options, message) -> None:
    with pytest.raises(InputError, match=message):
        SimCSELoss(tiny_encoder, **options)


@pytest.fixture
def masked_encoder(tiny_bert: Path, tmp_path: Path) -> SentenceTransformer:
    """Return a tiny BERT whose base was saved with its masked-language-model head."""
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    BertForMaskedLM.from_pretrained(tiny_bert).save_pretrained(tmp_path / "base")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "base")
    transformer = Transformer(str(tmp_path / "base"))
    return SentenceTransformer(modules=[transformer, Pooling(16, "cls")], device="cpu")


def test_masked_language_term_equals_the_upstream_model(masked_encoder, sentences, tmp_path: Path) -> None:
    loss = build(masked_encoder, mlm_weight=0.5)
    loss.eval()
    upstream = BertForMaskedLM.from_pretrained(tmp_path / "base").eval()
    columns = [masked_encoder.preprocess(sentences(8, seed=seed)) for seed in (0, 1)]
    torch.manual_seed(3)
    value = loss(columns)
    torch.manual_seed(3)
    losses = []
    for features in columns:
        masked, labels = loss.masked_language.mask(features)
        inputs = {name: masked[name] for name in ("input_ids", "attention_mask")}
        logits = upstream(**inputs).logits
        losses += [
            -logits[i, j].log_softmax(0)[labels[i, j]]
            for i in range(labels.shape[0])
            for j in range(labels.shape[1])
            if labels[i, j] != -100
        ]
    torch.testing.assert_close(value["mlm"], 0.5 * sum(losses) / len(losses))
    torch.testing.assert_close(value["contrast"], build(masked_encoder).eval()(columns))


def test_tied_decoder_stays_the_encoders(masked_encoder, sentences) -> None:
    loss = build(masked_encoder, mlm_weight=0.1)
    table = masked_encoder[0].model.get_input_embeddings().weight
    assert loss.masked_language.network.get_output_embeddings().weight is table
    assert all(p is not table for p in loss.owned_parameters())
    assert not any(tensor.shape == table.shape for tensor in loss.head_state().values())
    assert any("transform" in name for name in loss.head_state())
    loss.train()
    sum(loss([masked_encoder.preprocess(sentences(8))]).values()).backward()
    assert all(p.grad is not None for p in loss.owned_parameters())


def test_masking_spares_special_tokens_and_padding(masked_encoder, sentences) -> None:
    head = build(masked_encoder, mlm_weight=0.1).masked_language
    features = masked_encoder.preprocess(sentences(400))
    ids, mask = features["input_ids"], features["attention_mask"]
    torch.manual_seed(0)
    masked, labels = head.mask(features)
    chosen = labels != -100
    words = mask.bool() & (ids > 4)
    assert not (chosen & ~words).any()
    assert torch.equal(masked["input_ids"][~chosen], ids[~chosen])
    assert torch.equal(labels[chosen], ids[chosen])
    assert abs(chosen.sum() / words.sum() - 0.15) < 0.03
    assert abs((masked["input_ids"][chosen] == 4).float().mean() - 0.8) < 0.07
    assert torch.equal(features["input_ids"], ids)


def test_masked_language_term_survives_a_batch_without_masks(masked_encoder) -> None:
    loss = build(masked_encoder, mlm_weight=0.1)
    features = masked_encoder.preprocess([""])
    value = loss([features, features])
    assert value["mlm"].item() == 0
    value["mlm"].backward()


def test_masked_language_term_needs_a_pretrained_head(tiny_encoder) -> None:
    with pytest.raises(InputError, match="does not contain a masked-language-model head"):
        SimCSELoss(tiny_encoder, mlm_weight=0.1)


def test_a_gradient_cache_is_refused_with_the_masked_language_model_term(masked_encoder) -> None:
    with pytest.raises(
        InputError, match="SimCSELoss does not support a gradient cache: its masked-language-model term"
    ):
        GradientCache(SimCSELoss(masked_encoder, mlm_weight=0.1))
