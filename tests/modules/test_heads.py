"""Classification heads: their logits, and a round trip through their configuration."""

from __future__ import annotations

import json

import pytest
import torch

from sentemb.errors import InputError
from sentemb.modules import ClassificationHead, LinearHead, build_head
from sentemb.modules.heads import HEADS


def test_linear_head_is_one_linear_layer_on_the_sentence_vector(tiny_encoder) -> None:
    head = LinearHead(16, 3).eval()
    features = tiny_encoder(tiny_encoder.preprocess(["a cat sat", "the dog"]))
    logits = head(features)
    weight, bias = head.linear.parameters()
    expected = torch.stack([weight @ vector + bias for vector in features["sentence_embedding"]])
    torch.testing.assert_close(logits, expected)


def test_linear_head_starts_as_bert_starts_its_classifier() -> None:
    torch.manual_seed(0)
    head = LinearHead(400, 50)
    assert head.linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not head.linear.bias.any()
    assert head.dropout == 0.1


def test_linear_head_drops_out_in_training_only() -> None:
    head = LinearHead(64, 2, dropout=0.5)
    features = {"sentence_embedding": torch.ones(1, 64)}
    assert not torch.equal(head(features), head(features))
    head.eval()
    assert torch.equal(head(features), head(features))


def test_linear_head_takes_half_precision_vectors() -> None:
    assert LinearHead(4, 2)({"sentence_embedding": torch.ones(1, 4).bfloat16()}).dtype == torch.float32


def test_configuration_survives_json() -> None:
    head = LinearHead(8, 3, dropout=0.2)
    config = json.loads(json.dumps(head.config()))
    again = build_head(config)
    assert type(again) is LinearHead
    assert again.config() == head.config() == config
    again.load_state_dict(head.state_dict())


def test_every_kind_is_listed_under_its_own_name() -> None:
    for kind, head_class in HEADS.items():
        assert issubclass(head_class, ClassificationHead)
        assert head_class.kind == kind


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "unknown classification head None; choose one of linear"),
        ({"kind": ["linear"]}, r"unknown classification head \['linear'\]"),
        ({"kind": "mlp", "width": 8}, "unknown classification head 'mlp'"),
        ({"kind": "linear", "width": 8}, "missing a required argument: 'classes'"),
        ({"kind": "linear", "width": 8, "classes": 2, "depth": 3}, "unexpected keyword argument 'depth'"),
        ({"kind": "linear", "width": 8, "classes": 0}, "classes of a classification head is 0"),
        ({"kind": "linear", "width": "8", "classes": 2}, "width of a classification head is '8'"),
        ({"kind": "linear", "width": 8, "classes": 2, "dropout": 1}, "dropout of a classification head is 1"),
    ],
)
def test_bad_configurations_are_one_line(config, message) -> None:
    with pytest.raises(InputError, match=message):
        build_head(config)


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match="have 4 dimensions, but the head expects 8"):
        LinearHead(8, 2)({"sentence_embedding": torch.ones(1, 4)})
