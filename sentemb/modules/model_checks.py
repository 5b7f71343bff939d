"""Checks of loaded models for defects that do not raise an error but would silently spoil the vectors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn

from sentemb._compat import Dense, Transformer, WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.modules.folder_checks import AGAIN, CONFIG, read_modules, read_object
from sentemb.modules.source import ModelSource, readable

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


def check_saved_modules(model: SentenceTransformer, source: ModelSource) -> None:
    """Raise InputError if upstream loads modules differently from how they were saved.

    Raises:
        InputError: A Dense has an activation that upstream replaces with its default, or a pooling of layers
            receives only the last layer.
    """
    pools_layers = any(isinstance(module, WeightedLayerPooling) for module in model)
    if pools_layers and not getattr(model[0].config, "output_hidden_states", False):
        raise InputError(
            f"{source.address} pools several layers, but its transformer returns only the last one",
            f"set output_hidden_states to true in its {CONFIG}",
        )
    folder = Path(source.address)
    for module, entry in zip(model, read_modules(folder) or (), strict=False):
        if isinstance(module, Dense):
            path = folder / entry["path"] / CONFIG
            saved = read_object(path).get("activation_function")
            if saved not in (None, module.get_config_dict()["activation_function"]):
                raise InputError(f"{path}: activation_function is {saved!r}, which is not supported", AGAIN)


def check_model(model: SentenceTransformer, source: ModelSource) -> None:
    """Raise InputError if the vocabulary does not match, weights are damaged, or texts get equal vectors.

    Raises:
        InputError: A check fails; the message names the part.
    """
    address = source.address
    _check_tokenizer(model, source)
    for transformer in model.modules():
        if isinstance(transformer, Transformer):
            check_vocabulary(transformer.tokenizer, transformer.model, address)
            _check_filled(transformer.model, address)
    check_weights(model, address)
    _check_vectors(model, address)


def _check_tokenizer(model: SentenceTransformer, source: ModelSource) -> None:
    """Raise InputError if the folder lacks a vocabulary, or its tokenizer uses another algorithm.

    Upstream loads a tokenizer anyway: an empty one, for which all texts are equal, or one of single letters.
    """
    folder = Path(source.address)
    names = getattr(getattr(model[0], "tokenizer", None), "vocab_files_names", {}).values()
    # All fast tokenizers can be loaded from tokenizer.json, but not all classes list it.
    known = dict.fromkeys((*names, "tokenizer.json"))
    if folder.is_dir() and names and not any(True for name in known for _ in folder.rglob(name)):
        raise InputError(f"{source.address} does not contain a tokenizer ({' or '.join(known)})", AGAIN)
    loaded: Any = getattr(getattr(model[0], "tokenizer", None), "backend_tokenizer", None)
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


def _check_filled(network: nn.Module, address: str) -> None:
    """Raise InputError if a matrix is all zeros, as after a download that stopped early."""
    for name, weight in network.named_parameters():
        # The pooler may be missing, and token types unused.
        is_matrix = weight.ndim == 2 and min(weight.shape) > _TOKEN_TYPES and "pooler" not in name
        if is_matrix and not weight[0].any() and not weight.any():
            raise InputError(f"the weight {name} of {address} contains only zeros", AGAIN)


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
        hint = (
            "use another pooling: in a decoder, the first token does not see the rest of the text"
            if pools_first
            else AGAIN
        )
        raise InputError(f"{address} computes the same vector for different texts", hint)
    told = model.get_embedding_dimension()
    has = vectors[:, : model.truncate_dim].shape[1]
    if told is not None and told != has:
        raise InputError(
            f"a module of {address} is configured for vectors of {told} dimensions, but they have {has}",
            AGAIN,
        )
