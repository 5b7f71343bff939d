"""Heads next to an encoder: a round trip through files, and errors that name the damage."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sentemb.errors import InputError
from sentemb.modules.files import load_weights, read_config, save_weights, write_config


def test_weights_come_back_exactly(tmp_path: Path) -> None:
    saved, loaded = nn.Linear(3, 2), nn.Linear(3, 2)
    save_weights(saved, tmp_path / "head.safetensors")
    load_weights(loaded, tmp_path / "head.safetensors", hint="")
    assert torch.equal(saved.weight, loaded.weight)
    assert torch.equal(saved.bias, loaded.bias)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    save_weights(nn.Linear(3, 2), tmp_path / "head.safetensors")
    with pytest.raises(InputError, match=r"the weights in .*head\.safetensors do not match"):
        load_weights(nn.Linear(3, 4), tmp_path / "head.safetensors", hint="copy it completely")


@pytest.mark.parametrize("content", [b"", b"no safetensors at all"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "head.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"head\.safetensors cannot be read"):
        load_weights(nn.Linear(3, 2), tmp_path / "head.safetensors", hint="copy it completely")


def test_a_configuration_keeps_its_version(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_config(path, {"labels": ["no", "yes"]}, version=2)
    assert read_config(path, version=2, hint="") == {"version": 2, "labels": ["no", "yes"]}
    with pytest.raises(InputError, match="has the format version 2, but this version of sentemb reads 1"):
        read_config(path, version=1, hint="")
    with pytest.raises(InputError, match="does not specify a format version"):
        read_config(path, version=3, hint="")


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputError, match="does not specify a format version"):
        read_config(tmp_path / "config.json", version=1, hint="")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    damaged = nn.Linear(3, 2)
    damaged.weight.data[1, 2] = value
    save_weights(damaged, tmp_path / "head.safetensors")
    with pytest.raises(InputError, match=r"weight weight in .*head\.safetensors .* NaN or infinity"):
        load_weights(nn.Linear(3, 2), tmp_path / "head.safetensors", hint="copy it completely")


def test_weights_of_another_type_are_refused(tmp_path: Path) -> None:
    whole = {name: weight.to(torch.int32) for name, weight in nn.Linear(3, 2).state_dict().items()}
    save_file(whole, tmp_path / "head")
    with pytest.raises(InputError, match=r"the weights in .*head do not match"):
        load_weights(nn.Linear(3, 2), tmp_path / "head", hint="copy it completely")
