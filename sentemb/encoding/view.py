"""Views of a model: other modules over the same weights. And the digest of what a model computes."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Dense, StaticEmbedding
from sentemb.modules.check import add_weights, lasting_settings

ModuleType = TypeVar("ModuleType", bound=nn.Module)


def inference_view(module: ModuleType) -> ModuleType:
    """Copy the tree of modules, in eval mode, with the original's parameters: children can be replaced."""
    return _copy(module, {})


def _copy(module: ModuleType, done: dict[int, nn.Module]) -> ModuleType:
    if id(module) in done:  # a module used in two places stays one module
        return done[id(module)]  # type: ignore[return-value]
    view = copy.copy(module)
    done[id(module)] = view
    # A shallow copy shares its dictionaries: without this, a hook that transformers puts on the view for
    # itself would also sit on the original, and collect every hidden state twice.
    for name, value in vars(module).items():
        if isinstance(value, dict):
            view.__dict__[name] = copy.copy(value)
    view.__dict__["training"] = False
    for name, child in module._modules.items():
        view._modules[name] = None if child is None else _copy(child, done)
    return view


def view_with_states(transformer: Any) -> Any:
    """Return an inference view of a transformer that returns the states of all layers."""
    view = inference_view(transformer)
    # A copy, since the caller's model would save the flag, and every later user pay for it.
    view.model.config = copy.copy(view.model.config)
    view.model.config.output_hidden_states = True
    return view


def with_modules(model: SentenceTransformer, modules: list[nn.Module]) -> SentenceTransformer:
    """Return a model of other modules, with the prompts and on the device of the given one."""
    return SentenceTransformer(
        modules=modules,
        device=str(model.device),
        prompts=dict(model.prompts),
        default_prompt_name=model.default_prompt_name,
        similarity_fn_name=model.similarity_fn_name,
    )


def with_truncation_as_module(model: SentenceTransformer) -> SentenceTransformer:
    """Return a model whose last module truncates its vectors, in the place of `truncate_dim`."""
    if model.truncate_dim is None:
        return model
    with model.truncate_embeddings(None):
        dimension = int(model.get_embedding_dimension() or 0)
    kept = min(model.truncate_dim, dimension)
    first, *others = model
    if isinstance(first, StaticEmbedding) and not others:
        table = first.embedding.weight.detach().cpu()[:, :kept].clone()
        return with_modules(model, [StaticEmbedding(first.tokenizer, embedding_weights=table.numpy())])
    cut = linear(np.eye(kept, dimension, dtype=np.float32)).requires_grad_(False)
    return with_modules(model, [first, *others, cut.to(device=model.device, dtype=model.dtype)])


def linear(weight: NDArray[np.float32]) -> Dense:
    """Return a module that multiplies vectors by a matrix (out, in)."""
    outputs, inputs = weight.shape
    dense = Dense(inputs, outputs, bias=False, activation_function=nn.Identity())
    dense.linear.weight.data = torch.from_numpy(np.ascontiguousarray(weight))
    return dense


def fingerprint_of(model: Any) -> str:
    """Hash all that decides a model's vectors or scores: weights, tokenizer, modules, prompts, dimension."""
    digest = hashlib.sha256()
    settings = {
        "modules": [[type(module).__name__, _configuration(module)] for module in model],
        "prompts": dict(sorted(model.prompts.items())),
        "default_prompt_name": model.default_prompt_name,
        "truncate_dim": getattr(model, "truncate_dim", None),  # not of cross-encoders and sparse models
    }
    digest.update(json.dumps(settings, sort_keys=True, default=_json_value).encode())
    add_weights(digest, model)
    return digest.hexdigest()


def _configuration(module: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if hasattr(module, "get_config_dict"):
        settings["module"] = module.get_config_dict()
    for route, modules in getattr(module, "sub_modules", {}).items():  # of a Router
        settings[route] = [[type(part).__name__, _configuration(part)] for part in modules]
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        settings["network"] = lasting_settings(config)
    tokenizer = getattr(module, "tokenizer", None)
    if tokenizer is not None:
        settings["max_length"] = getattr(tokenizer, "model_max_length", None)
        settings["tokenizer"] = _tokenizer_settings(tokenizer)
    return settings


def _tokenizer_settings(tokenizer: Any) -> dict[str, Any]:
    """Return what decides the tokens of a text."""
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # the wrapped one, in front of vectors of words
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):  # padding and truncation are state of the last call, not of the tokenizer
        settings = json.loads(backend.to_str()).items()
        return {key: value for key, value in settings if key not in ("padding", "truncation")}
    vocabulary = tokenizer.get_vocab()
    # A tokenizer of words has a list of them, and stop words and case count as well.
    return vocabulary if isinstance(vocabulary, dict) else vars(tokenizer)


def _json_value(value: Any) -> Any:
    """Convert a value that JSON does not have; a set in an order that does not depend on the process."""
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
