"""Loading of models by name, folder and hub id, and the errors if a model does not exist."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any, NoReturn

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError

import sentemb
from sentemb.errors import InputError
from sentemb.modules import is_finished_encoder

TEXTS = ["a cat sat on the mat", "birds"]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block the network without setting the offline mode of the hub."""

    def refuse(*arguments: Any) -> NoReturn:
        raise AssertionError(f"a connection was tried: {arguments[1:]}")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_a_bundled_model_loads_by_name_without_a_connection() -> None:
    model = sentemb.load("bert-mini", pooling="mean", max_length=16, device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert (model.max_seq_length, model.device.type, model.dtype) == (16, "cpu", torch.float32)
    assert model.tokenizer.tokenize("How do I sort a dictionary?")[:4] == ["how", "do", "i", "sort"]
    encoder = sentemb.load_encoder("bert-mini", pooling="mean", max_length=16, device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)


def test_a_model_that_cuts_its_vectors_is_loaded(tiny_bert: Path, tmp_path: Path) -> None:
    built = sentemb.load(tiny_bert, pooling="mean", device="cpu")
    built.truncate_dim = 4
    built.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.encode(TEXTS), built.encode(TEXTS))


def test_a_raw_transformer_gets_mean_pooling_and_one_message(
    tiny_bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, mean = sentemb.load(tiny_bert, device="cpu"), sentemb.load(tiny_bert, pooling="mean", device="cpu")
    np.testing.assert_array_equal(model.encode(TEXTS), mean.encode(TEXTS))
    assert (
        caplog.text.count(
            "pretrained base without a pooling (not trained for sentences): mean pooling is used"
        )
        == 1
    )


def test_a_finished_encoder_is_told_from_a_raw_transformer(tiny_bert: Path, tmp_path: Path) -> None:
    assert not is_finished_encoder("bert-mini")
    assert is_finished_encoder("sg-bert-mini")
    assert not is_finished_encoder(tiny_bert)
    sentemb.load(tiny_bert, pooling="cls", device="cpu").save(str(tmp_path / "model"))
    assert is_finished_encoder(tmp_path / "model")
    with pytest.raises(InputError, match="no such model folder"):
        is_finished_encoder(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bert-mni", "did you mean bert-mini"),
        ("bert mini", "did you mean bert-mini"),
        ("quite-another", "bert-mini, "),
    ],
)
def test_a_misspelt_name_is_told_the_bundled_ones(name: str, told: str) -> None:
    with pytest.raises(InputError, match=rf"bundled model \({told}"):
        sentemb.load(name, pooling="cls")


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def download(name: str, file: str, *, revision: str | None, local_files_only: bool) -> str:
        asked.append((name, local_files_only))
        raise LocalEntryNotFoundError("no answer")

    monkeypatch.setattr("sentemb.modules.source.hf_hub_download", download)
    with pytest.raises(InputError, match="hub is not reachable"):
        sentemb.load("quite-another", pooling="cls")
    assert asked == [("quite-another", False), ("sentence-transformers/quite-another", True)]


def test_a_hub_id_is_not_told_the_bundled_ones() -> None:
    with pytest.raises(InputError, match="hub is not reachable") as caught:
        sentemb.load("me/bert-mini", pooling="cls")
    assert "bundled" not in str(caught.value)


def test_a_folder_of_models_names_them(tiny_bert: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        shutil.copytree(tiny_bert, tmp_path / f"seed-{seed}")
        (tmp_path / f"seed-{seed}" / "modules.json").write_text("[]")
    with pytest.raises(
        InputError,
        match=r"not a model folder: it contains neither .*; use a model inside it: .*seed-1, .*seed-2",
    ):
        sentemb.load(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_the_guard_of_these_tests_holds() -> None:
    with pytest.raises(AssertionError, match="a connection was tried"):
        sentemb.load("no-such-owner/no-such-model", pooling="cls")
