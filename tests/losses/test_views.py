from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import ModernBertConfig, ModernBertModel

from sentemb.errors import InputError
from sentemb.losses import EncoderLoss
from sentemb.losses.views import (
    View,
    check_dropouts,
    dropout_places,
    dropout_probability,
    encode_views,
)


def probabilities(model: nn.Module) -> list[float]:
    return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]


def views_of(features: dict[str, Any], *dropouts: float | None) -> list[View]:
    return [View(features, probability) for probability in dropouts]


def watch(model: nn.Module) -> list[tuple[int, set[float]]]:
    """Record rows and dropout probabilities of every later forward pass of the model."""
    seen: list[tuple[int, set[float]]] = []
    model.register_forward_pre_hook(
        lambda _, inputs: seen.append((len(inputs[0]["input_ids"]), set(probabilities(model))))
    )
    return seen


def test_every_dropout_is_set_and_put_back(tiny_encoder) -> None:
    tiny_encoder[0].model.encoder.layer[1].output.dropout.p = 0.25
    before = probabilities(tiny_encoder)
    assert len(before) == 1 + 3 * 3
    with dropout_probability(tiny_encoder, 0.4):
        assert set(probabilities(tiny_encoder)) == {0.4}
    assert probabilities(tiny_encoder) == before


def test_every_dropout_is_put_back_after_an_exception(tiny_encoder) -> None:
    before = probabilities(tiny_encoder)

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    tiny_encoder[0].model.encoder.layer[2].register_forward_hook(fail)
    tiny_encoder.train()
    with pytest.raises(RuntimeError, match="out of memory"):
        encode_views(tiny_encoder, views_of(tiny_encoder.preprocess(["a cat"]), 0.0, 0.3))
    assert probabilities(tiny_encoder) == before


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_reads_the_probability(tiny_encoder, attention) -> None:
    """The modules are in evaluation mode, so only code that reads their probability applies dropout."""
    tiny_encoder[0].model.set_attn_implementation(attention)
    tiny_encoder.train()
    features = tiny_encoder.preprocess(["a cat sat on the mat"])
    for module in tiny_encoder.modules():
        if isinstance(module, nn.Dropout):
            module.train(False)

    def views(probability: float) -> list[torch.Tensor]:
        with dropout_probability(tiny_encoder, probability):
            return [tiny_encoder(dict(features))["sentence_embedding"] for _ in range(2)]

    assert torch.equal(*views(0.0))
    assert not torch.equal(*views(0.5))


def test_bare_numbers_are_dropouts_too() -> None:
    model = ModernBertModel(
        ModernBertConfig(
            vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2,
            pad_token_id=0, attention_dropout=0.1,
        )
    )  # fmt: skip
    numbers = [module for module, name in dropout_places(model) if name == "attention_dropout"]
    assert len(numbers) == 2
    with dropout_probability(model, 0.3):
        assert all(module.attention_dropout == 0.3 for module in numbers)
    assert all(module.attention_dropout == 0.1 for module in numbers)


def test_views_come_in_order_with_one_forward_per_probability(tiny_encoder) -> None:
    tiny_encoder.train()
    seen = watch(tiny_encoder)
    features = tiny_encoder.preprocess(["a cat sat on the mat", "the dog"])
    views = encode_views(tiny_encoder, views_of(features, 0.2, 0.0, 0.3, 0.2, 0.0, None))
    assert seen == [(4, {0.2}), (2, {0.0}), (2, {0.3}), (2, {0.1})]
    vectors = [view["sentence_embedding"] for view in views]
    assert [vector.shape for vector in vectors] == [(2, 16)] * 6
    assert torch.equal(vectors[1], vectors[4])
    tiny_encoder.eval()
    plain = tiny_encoder(dict(features))["sentence_embedding"]
    torch.testing.assert_close(vectors[1], plain)
    pairs = [(i, j) for i in range(6) for j in range(i) if (i, j) != (4, 1)]
    assert not any(torch.equal(vectors[i], vectors[j]) for i, j in pairs)
    assert "sentence_embedding" not in features


def test_views_of_one_forward_are_whole_outputs(tiny_encoder) -> None:
    tiny_encoder.eval()
    features = tiny_encoder.preprocess(["a cat sat on the mat", "the dog"])
    single = tiny_encoder(dict(features))
    for view in encode_views(tiny_encoder, views_of(features, None, None, None)):
        assert view.keys() == single.keys()
        for name in ("sentence_embedding", "token_embeddings", "attention_mask"):
            torch.testing.assert_close(view[name], single[name])


def test_gradient_checkpointing_is_refused_where_it_would_recompute_with_another_dropout(
    tiny_encoder,
) -> None:
    tiny_encoder[0].model.gradient_checkpointing_enable()
    tiny_encoder.train()
    features = tiny_encoder.preprocess(["a cat"])
    with pytest.raises(InputError, match="gradient checkpointing"):
        encode_views(tiny_encoder, views_of(features, 0.0, 0.1))
    encode_views(tiny_encoder, views_of(features, None, None))
    tiny_encoder.eval()
    encode_views(tiny_encoder, views_of(features, 0.0, 0.1))


@pytest.mark.parametrize("dropouts", [(), 0.1, "0.1", (0.1, 1.0), (-0.1,), (None,), (True,), (float("nan"),)])
def test_bad_probabilities_are_refused(tiny_encoder, dropouts) -> None:
    with pytest.raises(InputError, match=r"dropouts of EncoderLoss are .*set one probability"):
        check_dropouts(EncoderLoss(tiny_encoder), dropouts)


def test_an_encoder_without_dropout_is_refused() -> None:
    with pytest.raises(InputError, match="this encoder does not have dropout"):
        check_dropouts(EncoderLoss(nn.Linear(2, 2)), (0.1,))
    assert check_dropouts(EncoderLoss(nn.Dropout(0.1)), [0, 0.2]) == (0.0, 0.2)
