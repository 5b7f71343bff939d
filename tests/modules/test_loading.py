"""The one call that gives a model: by name, by folder, by hub id, and what it says when there is none."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any, NoReturn

import huggingface_hub.constants
import numpy as np
import pytest

import sentemb
from sentemb.errors import InputError

TEXTS = ["a cat sat on the mat", "birds"]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is not switched off; there is just no way to it."""

    def refuse(*arguments: Any) -> NoReturn:
        raise AssertionError(f"a connection was tried: {arguments[1:]}")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_loads_by_name_without_a_connection() -> None:
    model = sentemb.load("bert-mini", pooling="mean", max_length=16, device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert (model.max_seq_length, model.device.type) == (16, "cpu")
    encoder = sentemb.load_encoder("bert-mini", pooling="mean", max_length=16, device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.usefixtures("no_network")
def test_a_saved_model_keeps_its_modules_and_vectors(tiny_bert: Path, tmp_path: Path) -> None:
    built = sentemb.build_encoder(tiny_bert, pooling="last-2", device="cpu")
    built.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")
    assert [type(module) for module in loaded] == [type(module) for module in built]
    np.testing.assert_array_equal(loaded.encode(TEXTS), built.encode(TEXTS))


def test_a_raw_transformer_asks_for_a_pooling() -> None:
    with pytest.raises(InputError, match="raw transformer without a pooling; choose one of cls"):
        sentemb.load("bert-mini")


@pytest.mark.parametrize("name", ["bert-mni", "bert mini"])
def test_a_misspelt_name_is_told_the_bundled_ones(name: str) -> None:
    with pytest.raises(InputError, match=r"bundled model \(.*bert-mini.*\)"):
        sentemb.load(name, pooling="cls")


def test_a_hub_id_is_not_told_the_bundled_ones() -> None:
    with pytest.raises(InputError, match="hub cannot be reached") as caught:
        sentemb.load("me/bert-mini", pooling="cls")
    assert "bundled" not in str(caught.value)


def test_a_folder_of_models_names_them(tiny_bert: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        shutil.copytree(tiny_bert, tmp_path / f"seed-{seed}")
        (tmp_path / f"seed-{seed}" / "modules.json").write_text("[]")
    with pytest.raises(InputError, match=r"no model folder; give a model inside it: .*seed-1, .*seed-2"):
        sentemb.load(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_the_guard_of_these_tests_holds() -> None:
    with pytest.raises(AssertionError, match="a connection was tried"):
        sentemb.load("no-such-owner/no-such-model", pooling="cls")
