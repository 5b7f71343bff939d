"""Classification heads: their logits, a round trip through files, and errors that name the damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sentemb.errors import InputError
from sentemb.modules import LinearHead, build_head
from sentemb.modules.files import load_weights, read_config, save_weights, write_config


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


def test_weights_come_back_exactly(tmp_path: Path) -> None:
    saved, loaded = nn.Linear(3, 2), nn.Linear(3, 2)
    save_weights(saved, tmp_path / "head.safetensors")
    load_weights(loaded, tmp_path / "head.safetensors", hint="")
    assert torch.equal(saved.weight, loaded.weight)
    assert torch.equal(saved.bias, loaded.bias)


def filled(value: float) -> Callable[[Path], None]:
    return lambda path: save_file({"weight": torch.full((2, 3), value), "bias": torch.ones(2)}, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: save_weights(nn.Linear(3, 4), path), "the weights in .*head do not match"),
        (filled(1), "the weights in .*head do not match"),  # integers
        (lambda path: path.write_bytes(b""), "head cannot be read"),
        (lambda path: path.write_bytes(b"no safetensors at all"), "head cannot be read"),
        (filled(float("nan")), "weight weight in .*head .* NaN or infinity"),
        (filled(float("inf")), "weight weight in .*head .* NaN or infinity"),
    ],
)
def test_damaged_weights_are_named(tmp_path: Path, damage, message) -> None:
    damage(tmp_path / "head")
    with pytest.raises(InputError, match=message):
        load_weights(nn.Linear(3, 2), tmp_path / "head", hint="copy it completely")


def test_a_configuration_keeps_its_version(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_config(path, {"labels": ["no", "yes"]}, version=2)
    assert read_config(path, version=2, hint="") == {"version": 2, "labels": ["no", "yes"]}
    with pytest.raises(InputError, match="has the format version 2, but this version of sentemb reads 1"):
        read_config(path, version=1, hint="")
    for version in (3, 1):
        with pytest.raises(InputError, match="does not specify a format version"):
            read_config(path, version=version, hint="")
        path.write_text("[]")
