"""The variants of a model: each is written to a folder, loaded and measured in the same way."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

from sentemb._compat import Normalize, Transformer
from sentemb._files import read_json, write_json
from sentemb.compression.layers import layers_of, prune_layers, reason_against_pruning
from sentemb.compression.static_model import StaticForm, static_form
from sentemb.encoding import load_encoder
from sentemb.encoding.static import is_static_model
from sentemb.encoding.tokens import batches, tokenise
from sentemb.encoding.view import linear, with_modules, with_truncation_as_module
from sentemb.modules import load
from sentemb.modules.check import module_folders
from sentemb.modules.exported import EXPORTED, ExportedNetwork, exported_file
from sentemb.modules.rounding import RoundedVectors, Rounding
from sentemb.modules.source import ModelSource, find_source

WHOLE = "model"
"""Name of the original model, which the others are compared with."""
STUDENT = "student"
"""Name of a student."""
CALIBRATION_TEXTS = 600
"""Maximum number of texts that variants are calibrated on."""
_RUNTIMES = {"onnx": ("onnxruntime", "onnx", "onnxscript"), "openvino": ("openvino", "onnx", "onnxscript")}
_CALIBRATION_TOKENS = 2048  # in a batch
_SMALLEST = 8  # dimensions
# Prefixes of files that are not part of a model here: weights of other formats, and files of a training.
_UNREAD = ("pytorch_model", "tf_model", "flax_model", "rust_model", "training_args", "optimizer")


class Original(NamedTuple):
    """The model that variants are made of."""

    model: SentenceTransformer  # in float32 and with its truncation as a module
    texts: Sequence[str]  # the user's, for calibration
    source: ModelSource | None = None  # of the unchanged model; None if it exists only in memory
    as_read: SentenceTransformer | None = None  # as its files are, if that differs


class Variant(NamedTuple):
    """A variant of a model."""

    name: str  # in `--write` and in tables
    meaning: str
    build: Callable[[Path], dict[str, Any]]  # writes it into an empty folder; returns details for the record


def original_of(
    model: SentenceTransformer, texts: Sequence[str], source: ModelSource | None = None
) -> Original:
    """Return what variants of a model are made of: the model in float32, regardless of its precision."""
    in_float32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    # A static model only looks its numbers up, so they keep their format.
    if model.truncate_dim is None and (in_float32 or is_static_model(model)):
        return Original(model, texts, source)
    return Original(with_truncation_as_module(copy.deepcopy(model).float()), texts, source, model)


def variants_of(original: Original) -> tuple[list[Variant], dict[str, str]]:
    """Return the variants of a model on this machine, itself first, and why others are missing."""
    model = original.model
    unchanged = model if original.as_read is None else original.as_read
    found = [Variant(WHOLE, "the original model", partial(write_copy, original.source, unchanged))]
    missing: dict[str, str] = {}
    truncate: Callable[[int, Path], dict[str, Any]] = partial(_truncate, model)
    static = None
    if is_text_transformer(model):
        found += _of_transformers(original, missing)
    # The files describe the model's form only if it has not been converted.
    elif static := static_form(model, original.source if original.as_read is None else None):
        if static.storage != "int8":
            rounded = static._replace(storage="int8")
            found.append(Variant("int8", "token vectors in int8", partial(_save_static, rounded)))
        truncate = partial(_truncate_static, static)
    else:
        missing["float16, onnx, openvino, layers"] = "the model does not start with a text transformer"
    dimension = load_encoder(model).dimension if static is None else static.table.shape[1]
    for kept in (dimension // 2, dimension // 4):
        if kept >= _SMALLEST:
            meaning = f"the first {kept} dimensions"
            found.append(Variant(f"dimensions-{kept}", meaning, partial(truncate, kept)))
    kinds: tuple[Rounding, ...] = ("int8", "binary")
    for kind in kinds:
        build = partial(_round_vectors, original, static, kind)
        found.append(Variant(f"{kind}-vectors", f"{kind} vectors", build))
    return found, missing


def is_text_transformer(model: SentenceTransformer) -> bool:
    """Return whether the first module is a transformer with token vectors of texts."""
    transformer = model[0]
    return (
        isinstance(transformer, Transformer)
        and not isinstance(transformer.model, ExportedNetwork)
        and transformer.module_output_name == "token_embeddings"
        and list(transformer.modality_config) == ["text"]
        and bool(getattr(transformer.tokenizer, "is_fast", False))
    )


def student_variant(student: str | Path) -> Variant:
    """Return the variant whose folder has a student's own files."""
    source, model = find_source(str(student)), load(student, device="cpu")
    return Variant(STUDENT, "the student", partial(write_copy, source, model))


def _of_transformers(original: Original, missing: dict[str, str]) -> list[Variant]:
    model = original.model
    half, bf16 = (partial(_save_half, model, dtype) for dtype in ("float16", "bfloat16"))
    found = [Variant("float16", "stored in float16, computed in float32", half)]
    if any(True for module in list(model)[1:] for _ in module.parameters()):
        missing["bf16"] = "the modules after the transformer have float32 weights"
    else:
        found.append(Variant("bf16", "stored and computed in bfloat16", bf16))
    graphs = _Graphs(original)
    for backend, needed in _RUNTIMES.items():
        both = f"{backend}, int8-{backend}"
        if lacking := [name for name in needed if find_spec(name) is None]:
            missing[both] = f"{', '.join(lacking)} not installed (pip install 'sentemb[compress]')"
        elif getattr(model[0].model.config, "output_hidden_states", False):
            missing[both] = "the model pools several layers, but an exported graph has only the last"
        else:
            exported, rounded = (partial(graphs.export, backend, in_int8) for in_int8 in (False, True))
            found.append(Variant(backend, f"float32 in {backend}", exported))
            found.append(Variant(f"int8-{backend}", f"int8 in {backend}", rounded))
    if (reason := reason_against_pruning(model)) is not None:
        missing["layers"] = reason
        return found
    layers = len(layers_of(model) or ())
    for count in sorted({-(-2 * layers // 3), layers // 2}, reverse=True):
        if 0 < count < layers:
            meaning = f"{count} of its {layers} layers"
            found.append(Variant(f"layers-{count}", meaning, partial(_prune, original, count)))
    return found


def draw_calibration_texts(texts: Sequence[str], *, seed: int) -> list[str]:
    """Draw the texts that variants are calibrated on."""
    drawn = np.random.default_rng(seed).permutation(len(texts))[:CALIBRATION_TEXTS]
    return [texts[number] for number in drawn]


def _save(model: SentenceTransformer, folder: Path) -> dict[str, Any]:
    model.save_pretrained(str(folder), create_model_card=False)
    return {}


def write_copy(source: ModelSource | None, model: SentenceTransformer, folder: Path) -> dict[str, Any]:
    """Copy a model's own files. A model in memory, or one without modules, is saved instead.

    Loading and saving would change the model: an int8 table comes back as float32.
    """
    if source is None or not source.has_modules:
        return _save(model, folder)
    place = Path(source.address)
    if not place.is_dir():  # a loaded model of the hub is in its cache
        place = Path(snapshot_download(source.address, local_files_only=True))
    for file in sorted(place.iterdir()):
        if file.is_file() and not file.name.startswith((".", *_UNREAD)):
            shutil.copy(file, folder / file.name)
    # Other folders, such as checkpoints, are not part of the model.
    for part in module_folders(place):
        shutil.copytree(part, folder / part.relative_to(place), dirs_exist_ok=True)
    if (network := exported_file(place)) is not None:
        shutil.copytree(network.parent, folder / network.parent.name, dirs_exist_ok=True)
    return {}


def _save_static(form: StaticForm, folder: Path) -> dict[str, Any]:
    form.write(folder)
    return {"stored": form.storage}


def _truncate_static(form: StaticForm, kept: int, folder: Path) -> dict[str, Any]:
    return _save_static(form.truncate(kept), folder)


def _save_half(model: SentenceTransformer, dtype: str, folder: Path) -> dict[str, Any]:
    """Save weights in 16 bits; a float16 model computes in float32, which any processor does well."""
    copied = copy.deepcopy(model)
    copied[0].model.to(getattr(torch, dtype))
    _save(copied, folder)
    if dtype == "bfloat16":
        return {"stored": dtype, "computed": dtype}
    config = folder / "config.json"
    write_json(config, {**read_json(config), "dtype": "float32"})
    return {"stored": dtype, "computed": "float32"}


def _prune(original: Original, count: int, folder: Path) -> dict[str, Any]:
    return _save(prune_layers(original.model, count, original.texts), folder)


def _truncate(model: SentenceTransformer, kept: int, folder: Path) -> dict[str, Any]:
    first = linear(np.eye(kept, load_encoder(model).dimension, dtype=np.float32))
    return _save(with_modules(model, [*model, first, Normalize()]), folder)


def _round_vectors(
    original: Original, static: StaticForm | None, kind: Rounding, folder: Path
) -> dict[str, Any]:
    encoder = load_encoder(original.model)
    rounding = RoundedVectors(encoder.dimension, kind)
    if kind == "int8":
        rounding.fit(torch.from_numpy(encoder.encode(original.texts)))
    told = _save(with_modules(original.model, [*original.model, rounding]), folder)
    if static is not None:
        static.keep_table(folder)
    return told


class _Graphs:
    """The ONNX graphs of a model, exported once for all runtimes."""

    def __init__(self, original: Original) -> None:
        self._original = original
        self._place = tempfile.TemporaryDirectory(prefix="sentemb-graphs-")

    def export(self, backend: str, in_int8: bool, folder: Path) -> dict[str, Any]:
        """Write the model with its network as a graph of a runtime, in int8 or float32."""
        from sentemb.compression.onnx_graphs import convert_to_openvino

        _save(self._original.model, folder)
        for weights in folder.glob("*.safetensors*"):
            weights.unlink()
        graph, told = self._rounded if in_int8 else (self._whole, {})
        target = folder / EXPORTED[backend]
        target.parent.mkdir()
        if backend == "onnx":
            shutil.copyfile(graph, target)
        else:
            convert_to_openvino(graph, target)
        return told

    @cached_property
    def _whole(self) -> Path:
        from sentemb.compression.onnx_graphs import export_onnx

        graph = Path(self._place.name, "whole.onnx")
        export_onnx(self._original.model[0], graph)
        return graph

    @cached_property
    def _rounded(self) -> tuple[Path, dict[str, Any]]:
        """The graph in int8, and details for the record."""
        from sentemb.compression.onnx_graphs import quantize

        file, texts = Path(self._place.name, "rounded.onnx"), self._original.texts
        tokens = tokenise(self._original.model[0].tokenizer, texts)
        given = [
            {name: column.numpy() for name, column in tokens.batch(rows).items()}
            for rows in batches(tokens.lengths, token_budget=_CALIBRATION_TOKENS)
        ]
        return file, {"calibrated_on": len(texts), **quantize(self._whole, file, given)}
