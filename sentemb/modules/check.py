"""Checks of a model: of its folder before loading, of its weights while loading, of its vectors afterwards.

A damaged model can fail with an error that does not name the file, or load and spoil all vectors silently.
Every check raises an InputError whose message names the file, the field or the part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn
from transformers.utils import logging as transformers_logging

from sentemb._compat import Dense, Transformer, WeightedLayerPooling, load_reports_through
from sentemb._files import read_json
from sentemb.errors import InputError

MODULES = "modules.json"
CONFIG = "config.json"
OPTIONS = "config_sentence_transformers.json"
AGAIN = "save or download the model again"

_LENGTHS = "sentence_*_config.json"
_ROUTER = "router_config.json"
_INDEX = "model.safetensors.index.json"
_OBJECTS = (CONFIG, OPTIONS, _LENGTHS, _INDEX, "tokenizer_config.json", "special_tokens_map.json")
# A string or 0 here causes an error that does not name the field, or a network without layers.
_COUNTS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
# Pretraining heads by model type: checkpoints contain them, but sentence encoders do not use them.
_PRETRAINING_HEADS = {
    "albert": ("predictions.", "sop_classifier."),
    "bert": ("cls.predictions.", "cls.seq_relationship."),
    "camembert": ("lm_head.",),
    "deberta": ("cls.predictions.", "lm_predictions."),
    "deberta-v2": ("cls.predictions.", "lm_predictions.", "mask_predictions."),
    "distilbert": ("vocab_transform.", "vocab_layer_norm.", "vocab_projector."),
    "electra": ("discriminator_predictions.", "generator_predictions.", "generator_lm_head."),
    "modernbert": ("head.", "decoder."),
    "mpnet": ("lm_head.",),
    "roberta": ("lm_head.",),
    "xlm-roberta": ("lm_head.",),
}
# Trained to predict the next sentence; poolings read the tokens instead.
_POOLER = "pooler."
_INCIDENTAL = {"_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype"}
# In many scripts, since a vocabulary may lack any one of them.
_PROBES = ("a cat sat 猫 кот قط 1", "birds fly over 鸟 птица طائر 2")
_ALIKE = 1e-5  # of a vector's length; an untrained network's vectors differ by a tenth
# Upstream pads embedding tables to a round number of rows, by a few percent at most.
_LEAST_VOCABULARY = 0.75
_TOKEN_TYPES = 2
# Tokens that a tokenizer adds to a text, or puts in place of unknown words.
_WRITTEN = ("pad_token", "cls_token", "sep_token", "bos_token", "eos_token", "unk_token")
# The algorithm in tokenizer.json, which can take a second to parse as a whole.
_ALGORITHM = re.compile(rb'"model"\s*:\s*\{\s*"type"\s*:\s*"(\w+)"')


# Folders


def check_folder(folder: Path) -> None:
    """Raise InputError if a configuration of the folder is damaged or names a missing file.

    Only small files are read; weights and vocabulary are checked after loading has failed.
    """
    modules = read_modules(folder)
    if modules is None and ((folder / OPTIONS).exists() or any(folder.glob("[1-9]_*/config.json"))):
        raise InputError(f"{folder} is a sentence-transformers model, but its {MODULES} is missing", AGAIN)
    for place in _places(folder):
        for path in _configurations(place):
            read_object(path)
        if any(place.glob("pytorch_model*.bin")) and not any(place.glob("*.safetensors")):
            loader = "AutoModel.from_pretrained" if place == folder else "SentenceTransformer"
            raise InputError(
                f"{place} contains pickled weights (pytorch_model.bin), which can execute code when loaded",
                "if you trust it, convert it to model.safetensors with "
                f"{loader}(folder).save_pretrained(folder)",
            )
    for module in modules or ():
        place = folder / module["path"]
        if not place.is_dir() and not module["type"].endswith(".Normalize"):
            raise InputError(f"{place} is missing, but {folder / MODULES} refers to it", AGAIN)
        if module["type"].endswith(".Pooling"):
            content = read_object(place / CONFIG)
            if not any(content[name] for name in content if name.startswith("pooling_mode")):
                raise InputError(f"{place / CONFIG} does not specify a pooling_mode", AGAIN)


def read_modules(folder: Path) -> list[dict[str, str]] | None:
    """Return the modules that a sentence-transformers folder lists; None if it does not list any."""
    path = folder / MODULES
    if not path.exists():
        return None
    modules = _read(path)
    if not isinstance(modules, list) or not modules:
        raise InputError(f"{path} does not list any modules", AGAIN)
    for module in modules:
        for field in ("name", "path", "type"):
            if not isinstance(module, dict) or not isinstance(module.get(field), str):
                raise InputError(f"{path}: the {field} of a module is missing or is not a string", AGAIN)
        if Path(module["path"]).is_absolute() or ".." in Path(module["path"]).parts:
            raise InputError(f"{path}: the path {module['path']!r} points outside the folder", AGAIN)
    if len({module["name"] for module in modules}) < len(modules):
        raise InputError(f"{path}: two modules have the same name", AGAIN)
    return modules


def read_object(path: Path) -> dict[str, Any]:
    """Read a configuration, which is a JSON object without impossible values."""
    content = _read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object", AGAIN)
    counts: tuple[str, ...] = ()
    if path.name == CONFIG:
        counts = _COUNTS
    elif path.match(_LENGTHS):
        counts = ("max_seq_length",)
    wrong = [
        name
        for name in counts
        if isinstance(value := content.get(name), str | int | float)
        and not (type(value) is int and value > 0)
    ]
    if path.name == OPTIONS:
        prompts = content.get("prompts", {})
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            wrong = ["prompts"]
    if wrong:
        raise InputError(f"{path}: {wrong[0]} is {content[wrong[0]]!r}", AGAIN)
    return content


def module_folders(folder: Path) -> list[Path]:
    """Return the subfolders of a model folder that contain its modules."""
    return [place for place in _places(folder) if place != folder and place.is_dir()]


def _places(folder: Path) -> list[Path]:
    """Return the folder and those of its modules, each once, including the parts of a Router."""
    places = [folder, *(folder / module["path"] for module in read_modules(folder) or ())]
    for place in list(places):
        if (place / _ROUTER).is_file():
            parts = read_object(place / _ROUTER).get("types")
            places += [place / part for part in (parts if isinstance(parts, dict) else ())]
    return list(dict.fromkeys(places))


def _configurations(place: Path) -> Iterator[Path]:
    return (path for pattern in _OBJECTS for path in place.glob(pattern))


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except InputError as error:
        raise InputError(error.message, AGAIN) from error


# Loading


@contextmanager
def loading(address: str, *, needs_pooler: bool = False) -> Iterator[None]:
    """Load an encoder's weights: `readable`, and none of them may be missing."""
    with readable(address), load_reports_through(_expected_differences(address, needs_pooler=needs_pooler)):
        yield


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Convert upstream's errors about an unreadable model to one line, and hide its progress bars.

    A damaged file can raise any exception. Wrap only the loading call, since other exceptions are bugs.
    """
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if Path(address).is_dir():
            _check_damage(Path(address), error)
        kind = type(error).__name__
        reason = " ".join(str(error).split()) or kind
        told = reason if isinstance(error, (OSError, ValueError, RuntimeError)) else f"{kind}: {reason}"
        hint = (
            "SentenceTransformer(...) in Python shows the full error; use another model if it fails as well"
        )
        if isinstance(error, ImportError):
            hint = "install the package named in the message, or use another model"
        elif isinstance(error, OSError):
            hint = "check that the model was downloaded or saved completely"
        elif "does not recognize this architecture" in reason:
            hint = "a newer release of transformers may support it: pip install -U transformers"
        raise InputError(f"cannot load {address}: {told[:300]}", hint) from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


def _check_damage(folder: Path, failure: Exception) -> None:
    """Raise InputError if a damaged file explains why a folder could not be loaded."""
    culprit = failure.args[0] if isinstance(failure, KeyError) else getattr(failure, "name", None)
    for place in _places(folder):
        for path in place.glob("tokenizer.json"):
            read_object(path)
        for path in sorted(place.glob("*.safetensors")):
            try:
                with safe_open(path, framework="pt"):
                    pass
            except (OSError, SafetensorError) as error:
                raise InputError(f"{path} cannot be read: {error}", AGAIN) from failure
        shards = read_object(place / _INDEX).get("weight_map") if (place / _INDEX).exists() else None
        names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else []
        if lost := [name for name in names if not (place / name).is_file()]:
            raise InputError(f"{place / lost[0]} is missing", AGAIN) from failure
        for path in _configurations(place):
            fields = [name for name, value in read_object(path).items() if value == culprit]
            if fields and culprit is not None:
                raise InputError(
                    f"{path}: {fields[0]} is {culprit!r}, which is not supported", AGAIN
                ) from failure


def _expected_differences(address: str, *, needs_pooler: bool) -> Callable[[Any, Any], Any]:
    """Build the check of the differences between a checkpoint and the encoder that loads it."""

    def check(model: Any, differences: Any) -> Any:
        missing = {name for name in differences.missing_keys if needs_pooler or not name.startswith(_POOLER)}
        if missing:
            raise InputError(
                f"{address} lacks {len(missing)} of the weights that its configuration requires, such "
                f"as {min(missing)}",
                AGAIN,
            )
        for name, stored, wanted in sorted(differences.mismatched_keys)[:1]:
            raise InputError(
                f"the weight {name} of {address} has the shape {tuple(stored)}, but its configuration "
                f"requires {tuple(wanted)}",
                AGAIN,
            )
        if spare := sorted(name for name in differences.unexpected_keys if _is_of_a_layer(name, model)):
            raise InputError(
                f"{address} has weights of layers that are not in its configuration, such as {spare[0]}",
                "set the number of layers in its config.json, or save the model again",
            )
        for name in differences.missing_keys:
            # A random weight would change the checkpoint's fingerprint with every load, so cached vectors
            # and saved indexes would not match it.
            model.get_parameter(name).data.zero_()
        heads = _PRETRAINING_HEADS.get(model.config.model_type, ())
        unexpected = {name for name in differences.unexpected_keys if not name.startswith(heads)}
        return replace(differences, missing_keys=missing, unexpected_keys=unexpected)

    return check


def expected_of_a_masked_model(model: Any, differences: Any) -> Any:
    """Ignore that an encoder's checkpoint lacks a masked-language-model head and may have a pooler."""
    heads = _PRETRAINING_HEADS.get(model.config.model_type, ())
    missing = {name for name in differences.missing_keys if not name.startswith(heads)}
    unused = (*heads, _POOLER, f"{model.base_model_prefix}.{_POOLER}")
    unexpected = {name for name in differences.unexpected_keys if not name.startswith(unused)}
    return replace(differences, missing_keys=missing, unexpected_keys=unexpected)


def _is_of_a_layer(name: str, model: nn.Module) -> bool:
    """Return whether a weight belongs to an additional layer of one of the model's stacks."""
    layer = re.match(r"(.+?)\.\d+\.", name.removeprefix(f"{model.base_model_prefix}."))
    try:
        return layer is not None and isinstance(model.get_submodule(layer[1]), nn.ModuleList)
    except AttributeError:
        return False


# Loaded models


def check_saved_modules(model: SentenceTransformer, address: str) -> None:
    """Raise InputError if upstream loads modules differently from how they were saved."""
    pools_layers = any(isinstance(module, WeightedLayerPooling) for module in model)
    if pools_layers and not getattr(model[0].config, "output_hidden_states", False):
        raise InputError(
            f"{address} pools several layers, but its transformer returns only the last one",
            f"set output_hidden_states to true in its {CONFIG}",
        )
    for module, entry in zip(model, read_modules(Path(address)) or (), strict=False):
        if isinstance(module, Dense):
            path = Path(address, entry["path"], CONFIG)
            saved = read_object(path).get("activation_function")
            # Upstream replaces one that it does not know by its default.
            if saved not in (None, module.get_config_dict()["activation_function"]):
                raise InputError(f"{path}: activation_function is {saved!r}, which is not supported", AGAIN)


def check_model(model: SentenceTransformer, address: str) -> None:
    """Raise InputError if the vocabulary does not match, weights are damaged, or texts get equal vectors."""
    _check_tokenizer(getattr(model[0], "tokenizer", None), address)
    for transformer in model.modules():
        if not isinstance(transformer, Transformer):
            continue
        check_vocabulary(transformer.tokenizer, transformer.model, address)
        for name, weight in transformer.model.named_parameters():
            # As after a download that stopped early. The pooler may be missing, and token types unused.
            is_matrix = weight.ndim == 2 and min(weight.shape) > _TOKEN_TYPES and "pooler" not in name
            if is_matrix and not weight[0].any() and not weight.any():
                raise InputError(f"the weight {name} of {address} contains only zeros", AGAIN)
    check_weights(model, address)
    _check_vectors(model, address)


def _check_tokenizer(tokenizer: Any, address: str) -> None:
    """Raise InputError if the folder lacks a vocabulary, or its tokenizer uses another algorithm.

    Upstream loads a tokenizer anyway: an empty one, for which all texts are equal, or one of single letters.
    """
    folder = Path(address)
    names = getattr(tokenizer, "vocab_files_names", {}).values()
    # All fast tokenizers can be loaded from tokenizer.json, but not all classes list it.
    known = dict.fromkeys((*names, "tokenizer.json"))
    if folder.is_dir() and names and not any(True for name in known for _ in folder.rglob(name)):
        raise InputError(f"{address} does not contain a tokenizer ({' or '.join(known)})", AGAIN)
    loaded: Any = getattr(tokenizer, "backend_tokenizer", None)
    for path in folder.glob("tokenizer.json") if loaded is not None else ():
        saved, used = _ALGORITHM.search(path.read_bytes()), type(loaded.model).__name__
        if saved is not None and saved[1].decode() != used:
            raise InputError(
                f"{path} is a {saved[1].decode()} vocabulary, but tokenizer_config.json specifies {used}",
                AGAIN,
            )


def check_vocabulary(tokenizer: Any, network: Any, address: str) -> None:
    """Raise InputError if a tokenizer does not match the embeddings of a transformer."""
    try:
        rows = getattr(network.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a network of several parts, such as CLIP
        rows = None
    if rows is None or not hasattr(tokenizer, "added_tokens_decoder"):
        return
    vocabulary = tokenizer.get_vocab()
    added = tokenizer.added_tokens_decoder
    # Tokens added for a task that was never trained can exceed the table; texts do not contain them.
    largest = max((number for number in vocabulary.values() if number not in added), default=0)
    if largest >= rows or len(vocabulary) < _LEAST_VOCABULARY * rows:
        raise InputError(
            f"the tokenizer of {address} does not match the model: its {len(vocabulary)} tokens have "
            f"numbers up to {largest}, but the model has {rows} embeddings",
            AGAIN,
        )
    for kind in _WRITTEN:
        number = getattr(tokenizer, f"{kind}_id", None)
        if number is not None and number >= rows:
            raise InputError(
                f"tokenizer_config.json of {address}: {kind} {getattr(tokenizer, kind)!r} is outside "
                f"the model's {rows} embeddings",
                AGAIN,
            )


def check_weights(model: nn.Module, address: str) -> None:
    """Raise InputError if a weight is not finite."""
    for name, weight in model.named_parameters():
        # The sum is not finite if a value is not, and takes a quarter of the time of checking each value.
        if weight.is_floating_point() and not weight.sum().isfinite() and not weight.isfinite().all():
            raise InputError(f"the weight {name} of {address} contains NaN or infinity", AGAIN)


@torch.no_grad()  # not inference mode: a model may keep its tensors and could not train with them
def _check_vectors(model: SentenceTransformer, address: str) -> None:
    """Raise InputError if a model computes the same vector for different texts."""
    if not hasattr(model[0], "tokenize") or "text" not in model.modalities:
        raise InputError(
            f"{address} starts with {type(model[0]).__name__}, which does not accept text",
            "use a text encoder",
        )
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()  # dropout would also move the random generator
        with readable(address):
            features = batch_to_device(model.preprocess(list(_PROBES)), model.device)
            ids = features.get("input_ids")
            output = model(features)
    finally:
        for module, training in modes:
            module.training = training
    if "sentence_embedding" not in output:
        raise InputError(
            f"the modules of {address} do not compute a sentence embedding: a pooling is missing", AGAIN
        )
    vectors: Tensor = output["sentence_embedding"].float()  # (2, d)
    if isinstance(ids, Tensor) and ids.ndim == 2 and bool((ids[0] == ids[1]).all()):
        raise InputError(f"the tokenizer of {address} maps different texts to the same tokens", AGAIN)
    if not bool(vectors.isfinite().all()):
        raise InputError(f"the vectors of {address} contain NaN or infinity", AGAIN)
    if bool((vectors[0] - vectors[1]).norm() <= _ALIKE * vectors.norm(dim=1).max()):
        pools_first = any(getattr(module, "pooling_mode", None) == "cls" for module in model)
        first = "use another pooling: in a decoder, the first token does not see the rest of the text"
        raise InputError(
            f"{address} computes the same vector for different texts", first if pools_first else AGAIN
        )
    told, has = model.get_embedding_dimension(), vectors[:, : model.truncate_dim].shape[1]
    if told is not None and told != has:
        raise InputError(
            f"a module of {address} is configured for vectors of {told} dimensions, but they have {has}",
            AGAIN,
        )


# What determines a model's output, for fingerprints


def lasting_settings(config: Any) -> dict[str, Any]:
    """Return a transformers configuration without its origin and the release that loaded it."""
    return {name: value for name, value in config.to_dict().items() if name not in _INCIDENTAL}


def add_weights(digest: hashlib._Hash, network: nn.Module) -> None:
    """Add all weights to a checksum; 100 MB take about 0.1 seconds."""
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
