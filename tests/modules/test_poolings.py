"""Encoders built from a base model and a pooling."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Normalize
from sentemb.errors import InputError
from sentemb.modules import Poolings, load

TEXTS = ["a cat sat on the mat", "the dog ran in the park quickly", "", "birds"]
LAYER_POOLINGS = {"last-2": (2, 3), "first-last": (1, 3), "first-last-static": (0, 3)}


def hidden_states(folder: Path, text: str) -> tuple[torch.Tensor, ...]:
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)([text], return_tensors="pt")
    with torch.no_grad():
        return AutoModel.from_pretrained(folder)(**inputs, output_hidden_states=True).hidden_states


def copy_of(folder: Path, to: Path, *, architecture: str | None = None) -> Path:
    shutil.copytree(folder, to)
    if architecture is not None:
        config = json.loads((to / "config.json").read_text())
        (to / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}))
    return to


@pytest.mark.parametrize("pooling", get_args(Poolings))
def test_saved_model_gives_the_same_vectors_and_its_flag_only_where_needed(
    tiny_bert: Path, tmp_path: Path, pooling: Poolings
) -> None:
    torch.manual_seed(0)
    model = load(tiny_bert, pooling=pooling, device="cpu")
    model.save(str(tmp_path / "model"))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    # Every user of the model pays for this flag.
    assert bool(config.get("output_hidden_states")) == (pooling in LAYER_POOLINGS or pooling == "wk")
    own = pooling in ("wk", "prompt")  # which sentence-transformers does not have
    reloaded = (load if own else SentenceTransformer)(str(tmp_path / "model"), device="cpu")
    np.testing.assert_array_equal(reloaded.encode(TEXTS), model.encode(TEXTS))


def test_saved_models_need_no_sentemb(
    tiny_bert: Path, tmp_path: Path, hide_sentemb: Callable[[], None]
) -> None:
    expected = {}
    for pooling in ("cls", "cls-mlp", "last-2"):
        model = load(tiny_bert, pooling=pooling, device="cpu")
        model.save(str(tmp_path / pooling))
        expected[pooling] = model.encode(TEXTS)
    hide_sentemb()
    for pooling, vectors in expected.items():
        model = SentenceTransformer(str(tmp_path / pooling), device="cpu")
        np.testing.assert_array_equal(model.encode(TEXTS), vectors)


@pytest.mark.parametrize("pooling", LAYER_POOLINGS)
def test_layer_poolings_average_the_layers_of_the_papers(tiny_bert: Path, pooling: Poolings) -> None:
    states = hidden_states(tiny_bert, TEXTS[0])
    low, high = LAYER_POOLINGS[pooling]
    expected = ((states[low] + states[high]) / 2).mean(dim=1)[0]  # one text: no padding to leave out
    vector = load(tiny_bert, pooling=pooling, device="cpu").encode(TEXTS[0])
    np.testing.assert_allclose(vector, expected.numpy(), atol=1e-6)


def test_single_layer_poolings(tiny_bert: Path) -> None:
    last = hidden_states(tiny_bert, TEXTS[0])[-1][0]
    for pooling, expected in (("cls", last[0]), ("mean", last.mean(0)), ("max", last.max(0).values)):
        vector = load(tiny_bert, pooling=pooling, device="cpu").encode(TEXTS[0])
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-6)


def test_another_pooling_takes_the_flag_away_and_keeps_the_prompts(tiny_bert: Path, tmp_path: Path) -> None:
    model = load(tiny_bert, pooling="last-2", device="cpu")
    model.prompts = {"query": "the "}
    model.default_prompt_name = "query"
    model.save(str(tmp_path / "model"))
    again = load(tmp_path / "model", pooling="cls", device="cpu")
    assert [type(module).__name__ for module in again] == ["Transformer", "Pooling"]
    assert not again[0].model.config.output_hidden_states
    assert (again.prompts["query"], again.default_prompt_name) == ("the ", "query")


def test_cls_mlp_keeps_a_dense_that_was_tuned_after_cls_and_replaces_any_other(
    tiny_bert: Path, tmp_path: Path
) -> None:
    tuned = load(tiny_bert, pooling="cls-mlp", device="cpu")
    folders = {name: str(tmp_path / name) for name in ("tuned", "normalised", "linear", "mean")}
    tuned.save(folders["tuned"])
    SentenceTransformer(modules=[*tuned, Normalize()], device="cpu").save(folders["normalised"])
    tuned[2].activation_function = nn.Identity()
    tuned.save(folders["linear"])
    tuned[2].activation_function, tuned[1].pooling_mode = nn.Tanh(), "mean"
    tuned.save(folders["mean"])
    for name, folder in folders.items():
        again = load(folder, pooling="cls-mlp", device="cpu")
        assert [type(module).__name__ for module in again] == ["Transformer", "Pooling", "Dense"]
        assert again[1].pooling_mode == "cls"
        same = torch.equal(again[2].linear.weight, tuned[2].linear.weight)
        assert same == (name in ("tuned", "normalised")), name
    cls = load(folders["tuned"], pooling="cls", device="cpu")
    assert [type(module).__name__ for module in cls] == ["Transformer", "Pooling"]


def test_layer_weights_are_fixed_after_loading_unless_they_were_learnt(
    tiny_bert: Path, tmp_path: Path
) -> None:
    model = load(tiny_bert, pooling="first-last", device="cpu")
    model.save(str(tmp_path / "model"))
    for encoder in (model, load(tmp_path / "model", device="cpu")):
        assert encoder[1].layer_weights.tolist() == [1.0, 0.0, 1.0]
        assert not encoder[1].layer_weights.requires_grad
    model[1].layer_weights.data.copy_(torch.tensor([0.3, 0.0, 0.7]))
    model.save(str(tmp_path / "learnt"))
    assert load(tmp_path / "learnt", device="cpu")[1].layer_weights.requires_grad


def test_sentence_transformers_folder_keeps_its_modules(minilm: Path) -> None:
    model = load(minilm, pooling=None, device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]


def test_max_length(tiny_bert: Path) -> None:
    assert load(tiny_bert, pooling="cls", max_length=8, device="cpu").max_seq_length == 8
    for length in (2, 65):
        with pytest.raises(InputError, match=f"max_length {length} .* 3 to 64 tokens"):
            load(tiny_bert, pooling="cls", max_length=length, device="cpu")


class TestSimCseCheckpoints:
    def test_name_settles_the_pooling(self, tiny_bert: Path, tmp_path: Path) -> None:
        folder = copy_of(tiny_bert, tmp_path / "unsup-simcse-bert-tiny")
        assert [type(module).__name__ for module in load(folder, pooling=None)] == [
            "Transformer",
            "Pooling",
        ]

    def test_supervised_takes_its_mlp_from_the_pooler(self, tiny_bert: Path, tmp_path: Path) -> None:
        folder = copy_of(tiny_bert, tmp_path / "sup-simcse-bert-tiny")
        model = load(folder, pooling=None, device="cpu")
        weights = load_file(folder / "model.safetensors")
        torch.testing.assert_close(model[2].linear.weight.data, weights["pooler.dense.weight"])

    def test_training_output_keeps_its_mlp(self, tiny_bert: Path, tmp_path: Path) -> None:
        folder = copy_of(tiny_bert, tmp_path / "result", architecture="BertForCL")
        weights = load_file(folder / "model.safetensors")
        renamed = {f"bert.{name}": value for name, value in weights.items() if "pooler" not in name}
        renamed["mlp.dense.weight"], renamed["mlp.dense.bias"] = torch.randn(16, 16), torch.randn(16)
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
        model = load(folder, pooling="cls-mlp", device="cpu")
        assert torch.equal(model[2].linear.weight, renamed["mlp.dense.weight"])
        assert torch.equal(model[2].linear.bias, renamed["mlp.dense.bias"])
        name = "embeddings.word_embeddings.weight"
        assert torch.equal(model[0].model.state_dict()[name], weights[name])
        with pytest.raises(InputError, match="SimCSE training checkpoint"):
            load(folder, pooling=None)

    def test_other_models_start_with_a_new_head(
        self, tiny_bert: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = load(tiny_bert, pooling="cls-mlp", device="cpu")
        pooler = load_file(tiny_bert / "model.safetensors")["pooler.dense.weight"]
        assert not torch.equal(model[2].linear.weight, pooler)
        assert "needs training" in caplog.text


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("/no/such/model", "no such model folder"),
        ("./nothing", "no such model folder"),
        ("a/b/c", "no such model folder"),
        ("", "no such model folder"),
        ("no-such-owner/no-such-model", "hub is not reachable"),
        ("nosuchmodel", "hub is not reachable"),
        ("bad name", "neither a local folder nor a valid hub id"),
    ],
)
def test_unknown_model_is_one_line(base: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(base, pooling="cls")


def test_file_is_no_model(tiny_bert: Path) -> None:
    with pytest.raises(InputError, match=r"config.json is a file"):
        load(tiny_bert / "config.json", pooling="cls")


def test_unknown_pooling_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(InputError, match="unknown pooling 'median'"):
        load(tiny_bert, pooling="median")  # type: ignore[arg-type]
