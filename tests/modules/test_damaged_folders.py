"""A damaged model folder raises a one-line error that names the damage; harmless changes do not matter."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import sentemb
from sentemb.errors import InputError

Damage = Callable[[Path], object]
TEXTS = ["a cat sat on the mat", "birds"]
DEEP = "[" * 100_000 + "]" * 100_000
LAYER = "encoder.layer.1.output.dense.weight"
TABLE = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def saved(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return undamaged folders of every layout."""
    folders = {"plain": tiny_bert}
    for name, pooling in {"pooled": "mean", "dense": "cls-mlp", "layers": "last-2", "wk": "wk"}.items():
        folders[name] = tmp_path_factory.mktemp("saved") / name
        sentemb.load(tiny_bert, pooling=pooling, device="cpu").save(str(folders[name]))  # type: ignore[arg-type]
    return folders


def remove(*names: str) -> Damage:
    def damage(folder: Path) -> None:
        for path in (folder / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def write(name: str, content: str | bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def cut(name: str, part: float = 0.5) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * part)])

    return damage


def edit(name: str, **fields: Any) -> Damage:
    def damage(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | fields))

    return damage


def modules(change: Callable[[list[dict[str, Any]]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "modules.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return damage


def second(**fields: Any) -> Damage:
    return modules(lambda listed: [listed[0], listed[1] | fields, *listed[2:]])


def weights(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], file: str = "model.safetensors"
) -> Damage:
    return lambda folder: save_file(
        change(load_file(folder / file)), folder / file, metadata={"format": "pt"}
    )


def vocabulary(change: Callable[[dict[str, int]], dict[str, int]]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text())
        content["model"]["vocab"] = change(content["model"]["vocab"])
        path.write_text(json.dumps(content))

    return damage


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def sharded(folder: Path) -> None:
    content = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(content)
    shards = {"model-1-of-2.safetensors": names[::2], "model-2-of-2.safetensors": names[1::2]}
    for shard, part in shards.items():
        save_file({name: content[name] for name in part}, folder / shard, metadata={"format": "pt"})
    places = {name: shard for shard, part in shards.items() for name in part}
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def then(*damages: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in damages]


POOLING = "1_Pooling/config.json"
LENGTHS = "sentence_bert_config.json"
OPTIONS = "config_sentence_transformers.json"
NORMALIZE = {"name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}

REFUSED: dict[str, dict[str, tuple[Damage, str]]] = {
    "pooled": {
        "no tokenizer": (remove("tokenizer.json", "tokenizer_config.json"), "does not contain a tokenizer"),
        "no vocabulary": (remove("tokenizer.json"), "cannot load .*bad"),
        "small vocabulary": (
            vocabulary(lambda words: {word: number for word, number in words.items() if number < 5}),
            "tokenizer of .*bad does not match the model: its 5 tokens",
        ),
        "no modules.json": (remove("modules.json"), "its modules.json is missing"),
        "cut modules.json": (cut("modules.json"), "modules.json is not valid JSON"),
        "modules.json an object": (write("modules.json", "{}"), "modules.json does not list any modules"),
        "modules.json of words": (write("modules.json", '["a"]'), "modules.json: the name"),
        "deep modules.json": (write("modules.json", DEEP), "modules.json is not valid JSON"),
        "reversed": (modules(lambda listed: listed[::-1]), "starts with Pooling"),
        "one name twice": (second(name="0"), "two modules have the same name"),
        "type a number": (second(type=3), "modules.json: the type of a module"),
        "foreign type": (second(type="os.system"), "os.system"),
        "path out of the folder": (second(path="../1_Pooling"), "points outside the folder"),
        "path nowhere": (second(path="nowhere"), "nowhere is missing"),
        "transformer only": (modules(lambda listed: listed[:1]), "a pooling is missing"),
        "normalize only": (modules(lambda listed: [NORMALIZE]), "starts with Normalize"),
        "no folder of the pooling": (remove("1_Pooling"), "1_Pooling is missing"),
        "no file of the pooling": (remove(POOLING), "no such file: .*1_Pooling.config.json; save"),
        "empty pooling": (write(POOLING, "{}"), "does not specify a pooling_mode"),
        "unknown pooling": (
            edit(POOLING, pooling_mode="median"),
            "cannot load .*Invalid pooling mode: 'median'",
        ),
        "pooling of another width": (
            edit(POOLING, embedding_dimension=99),
            "of 99 dimensions, but they have 16",
        ),
        "another kind of model": (edit(OPTIONS, model_type="SparseEncoder"), "is a sparse encoder"),
        "prompt a number": (edit(OPTIONS, prompts={"query": 3}), f"{OPTIONS}: prompts is"),
        "cut weights": (cut("model.safetensors", 0.99), "model.safetensors cannot be read"),
        "width 0": (edit("config.json", hidden_size=0), "config.json: hidden_size is 0"),
        "length 0": (edit(LENGTHS, max_seq_length=0), f"{LENGTHS}: max_seq_length is 0"),
        "length without room": (edit(LENGTHS, max_seq_length=2), "is 2 tokens"),
    },
    "plain": {
        "cut tokenizer": (cut("tokenizer.json"), "tokenizer.json is not valid JSON"),
        "tokenizer a list": (write("tokenizer.json", "[]"), "tokenizer.json is not a JSON object"),
        "settings of another tokenizer": (
            edit("tokenizer_config.json", tokenizer_class="RobertaTokenizer"),
            "tokenizer.json is a WordPiece vocabulary, but tokenizer_config.json specifies BPE",
        ),
        "no padding": (edit("tokenizer_config.json", pad_token=None), "padding token"),
        "padding beyond the table": (
            edit("tokenizer_config.json", pad_token="[]"),
            r"tokenizer_config.json of .*bad: pad_token '\[\]' is outside the model's 34 embeddings",
        ),
        "numbers beyond the table": (
            vocabulary(lambda words: {word: number + 100 * (number > 4) for word, number in words.items()}),
            "tokenizer of .*bad does not match the model: .* up to 133, but the model has 34",
        ),
        "all tokens unknown": (
            vocabulary(lambda words: {f"{word}!" * (n > 4) or word: n for word, n in words.items()}),
            "maps different texts to the same tokens",
        ),
        "no weights": (remove("model.safetensors"), "no file named model.safetensors"),
        "pointer instead of weights": (
            write("model.safetensors", "version 1\n" * 20),
            "model.safetensors cannot",
        ),
        "another shape": (
            weights(lambda all: all | {LAYER: all[LAYER][1:].clone()}),
            rf"{LAYER} of .* has the shape \(15, 32\)",
        ),
        "not a number": (
            weights(lambda all: all | {TABLE: all[TABLE].index_fill(0, torch.tensor(3), float("nan"))}),
            f"{TABLE} of .* NaN or infinity",
        ),
        "a matrix of zeros": (
            weights(lambda all: all | {LAYER: torch.zeros_like(all[LAYER])}),
            f"{LAYER} of .* contains only zeros",
        ),
        "pickle": (pickled, r"pickled weights \(pytorch_model.bin\).*convert it"),
        "missing shard": (then(sharded, remove("model-2-of-2.safetensors")), "2-of-2.* is missing"),
        "cut index": (then(sharded, cut("model.safetensors.index.json")), "index.json is not valid JSON"),
        "width a word": (edit("config.json", hidden_size="big"), "config.json: hidden_size is 'big'"),
        "heads that do not divide": (edit("config.json", num_attention_heads=3), "multiple of .* heads .3."),
        "layers without end": (
            edit("config.json", num_hidden_layers=10_000_000),
            "num_hidden_layers is 10,000,000",
        ),
        "no layers": (edit("config.json", num_hidden_layers=-1), "num_hidden_layers is -1"),
        "fewer layers": (
            edit("config.json", num_hidden_layers=2),
            "layers that are not in its configuration",
        ),
        "unknown type of model": (edit("config.json", model_type="nosuch"), "model type `nosuch`"),
        "unknown activation": (
            edit("config.json", hidden_act="nosuch"),
            "config.json: hidden_act is 'nosuch'",
        ),
        "type of model a list": (edit("config.json", model_type=["bert"]), "cannot load .*bad"),
        "field a word": (edit("config.json", layer_norm_eps="x"), "'layer_norm_eps'"),
        "no configuration": (remove("config.json"), "neither config.json nor modules.json"),
        "tokenizer's length 0": (edit("tokenizer_config.json", model_max_length=0), "is 0 tokens"),
    },
    "dense": {
        "Dense of another width": (
            then(
                edit("2_Dense/config.json", in_features=8),
                weights(
                    lambda all: {name: w[..., :8].clone() if w.ndim == 2 else w for name, w in all.items()},
                    "2_Dense/model.safetensors",
                ),
            ),
            "cannot load .*shapes cannot be multiplied",
        ),
        "Dense without weights": (remove("2_Dense/model.safetensors"), "cannot load .*bad"),
        "Dense of an unknown activation": (
            edit("2_Dense/config.json", activation_function="os.system"),
            "2_Dense.config.json: activation_function is 'os.system'",
        ),
        "infinite": (
            weights(lambda all: {name: w / 0 for name, w in all.items()}, "2_Dense/model.safetensors"),
            "2.linear.* NaN or infinity",
        ),
        "the same vector for all": (
            weights(
                lambda all: {name: torch.zeros_like(w) for name, w in all.items()},
                "2_Dense/model.safetensors",
            ),
            "the same vector for different texts",
        ),
    },
    "layers": {
        "layers not given": (edit("config.json", output_hidden_states=False), "pools several layers"),
    },
    "wk": {
        "WK without a configuration": (remove("1_WKPooling/config.json"), "cannot load .*bad"),
    },
}

HARMLESS: dict[str, tuple[str, Damage]] = {
    "shards": ("plain", sharded),
    "spare weights": ("plain", weights(lambda all: all | {"classifier.weight": torch.ones(2, 16)})),
    "no README": ("pooled", remove("README.md")),
    "no options": ("pooled", remove(OPTIONS)),
    "architectures no list": ("plain", edit("config.json", architectures={"a": 1})),
    "pickle next to safetensors": ("plain", write("pytorch_model.bin", b"never read")),
}


@pytest.mark.parametrize(
    ("layout", "case"), [(layout, case) for layout in REFUSED for case in REFUSED[layout]]
)
def test_damage_is_named_in_one_line(saved: dict[str, Path], tmp_path: Path, layout: str, case: str) -> None:
    damage, message = REFUSED[layout][case]
    folder = shutil.copytree(saved[layout], tmp_path / "bad")
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        sentemb.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_not_needed_changes_nothing(saved: dict[str, Path], tmp_path: Path, case: str) -> None:
    layout, change = HARMLESS[case]
    folder = shutil.copytree(saved[layout], tmp_path / "good")
    expected = sentemb.load(folder, device="cpu").encode(TEXTS)
    change(folder)
    np.testing.assert_array_equal(sentemb.load(folder, device="cpu").encode(TEXTS), expected)


def test_a_length_beyond_the_positions_is_lowered(
    saved: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = shutil.copytree(saved["pooled"], tmp_path / "long")
    edit(LENGTHS, max_seq_length=1000)(folder)
    model = sentemb.load(folder, device="cpu")
    assert model.max_seq_length == 64
    assert "reads at most 64 tokens, not 1000" in caplog.text
    assert np.isfinite(model.encode(["the cat " * 100])).all()


@pytest.mark.parametrize("device", ["cuda:7", "nonsense", "meta"])
def test_a_device_that_is_not_here_is_told_those_that_are(tiny_bert: Path, device: str) -> None:
    with pytest.raises(
        InputError, match=f"the device '{device}' is not available on this machine; choose among cpu"
    ):
        sentemb.load(tiny_bert, device=device)


def test_checking_a_model_moves_no_random_generator_and_no_mode(tiny_bert: Path) -> None:
    state = torch.get_rng_state()
    model = sentemb.load(tiny_bert, pooling="cls", device="cpu")
    assert torch.equal(torch.get_rng_state(), state)
    assert not model[0].model.training


@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_or_a_device_is_not_read(name: str, tiny_bert: Path, tmp_path: Path) -> None:
    for kind in ("pipe", "device"):
        folder = shutil.copytree(tiny_bert, tmp_path / kind)
        (folder / name).unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(folder / name)
        else:
            (folder / name).symlink_to("/dev/zero")
        with pytest.raises(InputError, match=f"{name} is a pipe or a device"):
            sentemb.load(str(folder))
