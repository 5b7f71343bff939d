"""The smaller forms of a model, each a folder that is written, loaded and priced in the same way."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from sentemb._compat import Normalize, Transformer
from sentemb._files import read_json, write_json
from sentemb.compression.copies import write_copy
from sentemb.compression.export import convert_to_openvino, export_onnx
from sentemb.compression.prune import layers_of, prune_layers, reason_against_pruning
from sentemb.compression.static_model import StaticForm, static_form
from sentemb.encoding import load_encoder
from sentemb.encoding.batching import batches, tokenise
from sentemb.encoding.static import is_static_model
from sentemb.encoding.view import linear, with_modules, with_truncation_as_module
from sentemb.modules.exported import EXPORTED, ExportedNetwork
from sentemb.modules.rounding import RoundedVectors, Rounding
from sentemb.modules.source import ModelSource

WHOLE = "model"
"""The model as it is, which the others are compared with."""
CALIBRATED = 600
"""Texts that variants are calibrated on, at most."""
_RUNTIMES = {"onnx": ("onnxruntime", "onnx", "onnxscript"), "openvino": ("openvino", "onnx", "onnxscript")}
_CALIBRATION_TOKENS = 2048  # in a batch
_SMALLEST = 8  # dimensions


class Original(NamedTuple):
    """What variants are made of.

    Attributes:
        model: The model, in float32 and with its truncation as a module.
        texts: The user's texts, to calibrate on.
        source: Where it was loaded from, unchanged; None of a model in memory alone.
        as_read: The model in its own precision, with its `truncate_dim`; None where `model` is that.
    """

    model: SentenceTransformer
    texts: Sequence[str]
    source: ModelSource | None = None
    as_read: SentenceTransformer | None = None


class Variant(NamedTuple):
    """A form of a model.

    Attributes:
        name: What `--write` and tables call it.
        meaning: What it is, in a few words.
        build: Writes it into an empty folder and says for the record what was done.
    """

    name: str
    meaning: str
    build: Callable[[Path], dict[str, Any]]


def original_of(
    model: SentenceTransformer, texts: Sequence[str], source: ModelSource | None = None
) -> Original:
    """What variants of a model are made of: in float32, in whatever precision it is stored."""
    in_float32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    # The numbers of a static model are looked up and not computed with: they stay as they are kept.
    if model.truncate_dim is None and (in_float32 or is_static_model(model)):
        return Original(model, texts, source)
    return Original(with_truncation_as_module(copy.deepcopy(model).float()), texts, source, model)


def variants_of(original: Original) -> tuple[list[Variant], dict[str, str]]:
    """The variants that a model allows on this machine, itself first, and why others are missing."""
    found = [_whole(original)]
    missing: dict[str, str] = {}
    if is_text_transformer(original.model):
        found += _of_transformers(original, missing)
    elif (static := _static_form(original)) is not None:
        return [*found, *_of_token_vectors(static), *_rounded(original, static)], missing
    else:
        missing["float16, onnx, openvino, layers"] = "the model does not start with a text transformer"
    return [*found, *_truncated(original), *_rounded(original)], missing


def _static_form(original: Original) -> StaticForm | None:
    # In other than its own numbers, what its files keep is not its form.
    return static_form(original.model, original.source if original.as_read is None else None)


def is_text_transformer(model: SentenceTransformer) -> bool:
    """Return whether a model begins with a transformer that gives token vectors of texts."""
    transformer = model[0]
    return (
        isinstance(transformer, Transformer)
        and not isinstance(transformer.model, ExportedNetwork)
        and transformer.module_output_name == "token_embeddings"
        and list(transformer.modality_config) == ["text"]
        and bool(getattr(transformer.tokenizer, "is_fast", False))
    )


def _whole(original: Original) -> Variant:
    """The model itself, whose files are copied."""
    source = original.source
    model = original.model if original.as_read is None else original.as_read

    def build(folder: Path) -> dict[str, Any]:
        if source is None:
            return _save(model, folder)
        write_copy(source, model, folder)
        return {}

    return Variant(WHOLE, "the original model", build)


def _of_transformers(original: Original, missing: dict[str, str]) -> list[Variant]:
    model = original.model
    found = [
        Variant("float16", "stored in float16, computed in float32", lambda folder: _half(model, folder))
    ]
    if any(True for module in list(model)[1:] for _ in module.parameters()):
        missing["bf16"] = "the modules after the transformer have float32 weights"
    else:
        found.append(Variant("bf16", "stored and computed in bfloat16", lambda folder: _brief(model, folder)))
    graphs = _Graphs(original)
    for backend, needed in _RUNTIMES.items():
        both = f"{backend}, int8-{backend}"
        if lacking := [name for name in needed if find_spec(name) is None]:
            missing[both] = f"{', '.join(lacking)} not installed (pip install 'sentemb[compress]')"
        elif getattr(model[0].model.config, "output_hidden_states", False):
            missing[both] = "the model pools several layers, but an exported graph has only the last"
        else:
            found += [
                Variant(backend, f"float32 in {backend}", _exporter(graphs, backend, rounded=False)),
                Variant(f"int8-{backend}", f"int8 in {backend}", _exporter(graphs, backend, rounded=True)),
            ]
    if (reason := reason_against_pruning(model)) is not None:
        missing["layers"] = reason
        return found
    layers = len(layers_of(model) or ())
    return [
        *found,
        *(
            Variant(f"layers-{count}", f"{count} of its {layers} layers", _pruner(original, count))
            for count in sorted({-(-2 * layers // 3), layers // 2}, reverse=True)
            if 0 < count < layers
        ),
    ]


def _of_token_vectors(static: StaticForm) -> list[Variant]:
    """A static model with smaller numbers than it has, or with fewer."""

    def writer(form: StaticForm) -> Callable[[Path], dict[str, Any]]:
        def build(folder: Path) -> dict[str, Any]:
            form.write(folder)
            return {"stored": form.storage}

        return build

    found = [
        Variant(f"dimensions-{kept}", f"the first {kept} dimensions", writer(static.truncate(kept)))
        for kept in _fewer(static.table.shape[1])
    ]
    if static.storage == "int8":
        return found
    return [Variant("int8", "token vectors in int8", writer(static._replace(storage="int8"))), *found]


def _truncated(original: Original) -> list[Variant]:
    return [
        Variant(f"dimensions-{kept}", f"the first {kept} dimensions", _truncater(original.model, kept))
        for kept in _fewer(load_encoder(original.model).dimension)
    ]


def _rounded(original: Original, static: StaticForm | None = None) -> list[Variant]:
    kinds: tuple[Rounding, ...] = ("int8", "binary")
    return [Variant(f"{kind}-vectors", f"{kind} vectors", _rounder(original, static, kind)) for kind in kinds]


def _fewer(dimension: int) -> list[int]:
    return [kept for kept in (dimension // 2, dimension // 4) if kept >= _SMALLEST]


def calibration_texts(texts: Sequence[str], *, seed: int) -> list[str]:
    """Draw the texts that variants are calibrated on."""
    drawn = np.random.default_rng(seed).permutation(len(texts))[:CALIBRATED]
    return [texts[number] for number in drawn]


def _save(model: SentenceTransformer, folder: Path) -> dict[str, Any]:
    model.save_pretrained(str(folder), create_model_card=False)
    return {}


def _half(model: SentenceTransformer, folder: Path) -> dict[str, Any]:
    """Weights in float16; the configuration asks for float32, in which any processor computes well."""
    _save(_in(model, torch.float16), folder)
    config = folder / "config.json"
    write_json(config, {**read_json(config), "dtype": "float32"})
    return {"stored": "float16", "computed": "float32"}


def _brief(model: SentenceTransformer, folder: Path) -> dict[str, Any]:
    _save(_in(model, torch.bfloat16), folder)
    return {"stored": "bfloat16", "computed": "bfloat16"}


def _in(model: SentenceTransformer, dtype: torch.dtype) -> SentenceTransformer:
    copied = copy.deepcopy(model)
    copied[0].model.to(dtype)
    return copied


def _exporter(graphs: _Graphs, backend: str, *, rounded: bool) -> Callable[[Path], dict[str, Any]]:
    def build(folder: Path) -> dict[str, Any]:
        _save(graphs.original.model, folder)
        for weights in folder.glob("*.safetensors*"):
            weights.unlink()
        graph, told = graphs.rounded() if rounded else (graphs.whole(), {})
        target = folder / EXPORTED[backend]
        target.parent.mkdir()
        if backend == "onnx":
            shutil.copyfile(graph, target)
        else:
            convert_to_openvino(graph, target)
        return told

    return build


class _Graphs:
    """The ONNX graphs of a model, made once for all runtimes."""

    def __init__(self, original: Original) -> None:
        self.original = original
        self._place = tempfile.TemporaryDirectory(prefix="sentemb-graphs-")
        self._told: dict[str, Any] | None = None

    def whole(self) -> Path:
        """In float32."""
        file = Path(self._place.name, "whole.onnx")
        if not file.exists():
            export_onnx(self.original.model[0], file)
        return file

    def rounded(self) -> tuple[Path, dict[str, Any]]:
        """In int8, and for the record how."""
        from sentemb.compression.quantisation import quantise

        file = Path(self._place.name, "rounded.onnx")
        if self._told is None:
            tokens = tokenise(self.original.model[0].tokenizer, self.original.texts)
            given = [
                {name: column.numpy() for name, column in tokens.batch(rows).items()}
                for rows in batches(tokens.lengths, token_budget=_CALIBRATION_TOKENS)
            ]
            self._told = {
                "calibrated_on": len(self.original.texts),
                **quantise(self.whole(), file, given),
            }
        return file, self._told


def _pruner(original: Original, count: int) -> Callable[[Path], dict[str, Any]]:
    return lambda folder: _save(prune_layers(original.model, count, original.texts), folder)


def _truncater(model: SentenceTransformer, kept: int) -> Callable[[Path], dict[str, Any]]:
    def build(folder: Path) -> dict[str, Any]:
        dimension = load_encoder(model).dimension
        cut = linear(np.eye(kept, dimension, dtype=np.float32))
        return _save(with_modules(model, [*model, cut, Normalize()]), folder)

    return build


def _rounder(
    original: Original, static: StaticForm | None, kind: Rounding
) -> Callable[[Path], dict[str, Any]]:
    def build(folder: Path) -> dict[str, Any]:
        encoder = load_encoder(original.model)
        rounding = RoundedVectors(encoder.dimension, kind)
        if kind == "int8":
            rounding.fit(torch.from_numpy(encoder.encode(original.texts)))
        told = _save(with_modules(original.model, [*original.model, rounding]), folder)
        if static is not None:
            static.keep_table(folder)
        return told

    return build
