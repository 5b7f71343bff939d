"""Tiny folders that hold no encoder, and what is to be said of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTImageProcessor, ViTModel

from tests.models_matrix import DENSE, behind_bert, encoder, raw, saved
from tests.models_networks import HEADS, WIDTH, random_network, write_encoder, write_json, write_network


class Other(NamedTuple):
    """A folder that holds no encoder that sentemb can use.

    Attributes:
        name: What tests call it.
        write: Writes it into an empty folder.
        message: What is said of it.
        hint: What is to be done.
        folder: What its folder is called.
    """

    name: str
    write: Callable[[Path], None]
    message: str
    hint: str
    folder: str = "model"


def _edited(write: Callable[[Path], None], name: str, **fields: Any) -> Callable[[Path], None]:
    """A folder with other fields in one of its files."""

    def edit(folder: Path) -> None:
        write(folder)
        path = folder / name
        write_json(path, {**(json.loads(path.read_text()) if path.exists() else {}), **fields})

    return edit


def _with_module(kind: str) -> Callable[[Path], None]:
    """An encoder whose list of modules has one of another package."""

    def write(folder: Path) -> None:
        write_encoder(folder, "bert")
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = kind
        write_json(folder / "modules.json", modules)

    return write


def _pickled(folder: Path) -> None:
    write_encoder(folder, "bert", behind=DENSE)
    (folder / "2_Dense" / "model.safetensors").unlink()
    torch.save({"linear.weight": torch.ones(WIDTH, WIDTH)}, folder / "2_Dense" / "pytorch_model.bin")


def _lacking(folder: Path) -> None:
    """Weights by other names, as a network of the model's own code has them."""
    write_network(folder, "bert")
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("attention.self", "mixer"): weight for name, weight in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})


def _sees(folder: Path) -> None:
    small = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "intermediate_size": 32,
    }
    random_network(ViTModel, ViTConfig(**small, image_size=8, patch_size=4)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(folder)


_OPTIONS = "config_sentence_transformers.json"
_AUTO = {"AutoModel": "modeling_own.OwnModel"}
OTHERS = (
    Other("cross-encoder", raw("bert", task="classifier", num_labels=1), "is a cross-encoder", "--reranker"),
    Other("classifier", raw("bert", task="classifier", num_labels=3), "is a classifier", "trained from"),
    Other(
        "cross-encoder-saved",
        _edited(encoder("bert"), _OPTIONS, model_type="CrossEncoder"),
        "is a cross-",
        "--rerank",
    ),
    Other(
        "decoder-reranker",
        raw("qwen3", task="causal"),
        "is a cross-encoder",
        "--reranker",
        "Qwen3-Reranker-0.6B",
    ),
    Other(
        "colbert",
        _edited(raw("bert"), "config.json", architectures=["HF_ColBERT"]),
        "is a multi-vector",
        "one vector",
    ),
    Other("pylate", _with_module("pylate.models.Transformer.Transformer"), "is a multi-vector", "one vector"),
    Other("splade-raw", raw("bert", task="masked"), "is a sparse encoder", "dense encoder", "splade-v3"),
    Other(
        "splade",
        _with_module("sentence_transformers.sparse_encoder.models.MLMTransformer"),
        "is a sparse encoder",
        "dense encoder",
    ),
    Other(
        "sparse",
        _edited(encoder("bert"), _OPTIONS, model_type="SparseEncoder"),
        "is a sparse",
        "dense encoder",
    ),
    Other(
        "newer",
        _edited(encoder("bert"), _OPTIONS, model_type="Novel"),
        "model type that sentemb does not support",
        "encoder",
    ),
    Other(
        "own-module", _with_module("custom_st.Transformer"), r"its own code \(custom_st", "trust_remote_code"
    ),
    Other(
        "own-network",
        _edited(raw("bert"), "config.json", model_type="own", auto_map=_AUTO),
        r"its own code \(auto_map",
        "trust_remote_code",
    ),
    Other(
        "own-weights", _edited(_lacking, "config.json", auto_map=_AUTO), "its own code", "trust_remote_code"
    ),
    Other("unknown", _edited(raw("bert"), "config.json", model_type="own"), "cannot load", "newer release"),
    Other(
        "model2vec",
        lambda folder: write_json(folder / "config.json", {"model_type": "model2vec"}),
        "is a model2vec",
        "from_model2vec",
    ),
    Other(
        "adapter",
        lambda folder: write_json(folder / "adapter_config.json", {"peft_type": "LORA"}),
        "is an adapter",
        "merge",
    ),
    Other("pickle", _pickled, "2_Dense contains pickled weights", "SentenceTransformer(folder)"),
    Other("image", _sees, "does not accept text", "text encoder"),
    Other("broken-chain", saved(behind_bert("lstm")), "cannot load .*sentence_lengths", "the full error"),
)
