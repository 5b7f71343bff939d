"""Names for what a model computes, independent of where it lies."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sentence_transformers import SentenceTransformer

from sentemb.modules.weights import add_weights, lasting_settings


def fingerprint_of(model: SentenceTransformer) -> str:
    """Hash everything that decides a model's vectors: weights, tokenizer, modules, prompts, dimension."""
    digest = hashlib.sha256()
    settings = {
        "modules": [[type(module).__name__, _configuration(module)] for module in model],
        "prompts": dict(sorted(model.prompts.items())),
        "default_prompt_name": model.default_prompt_name,
        "truncate_dim": model.truncate_dim,
    }
    digest.update(json.dumps(settings, sort_keys=True, default=_plain).encode())
    add_weights(digest, model)
    return digest.hexdigest()


def _configuration(module: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if hasattr(module, "get_config_dict"):
        settings["module"] = module.get_config_dict()
    for route, modules in getattr(module, "sub_modules", {}).items():  # of a Router
        settings[route] = [[type(one).__name__, _configuration(one)] for one in modules]
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        settings["network"] = lasting_settings(config)
    tokenizer = getattr(module, "tokenizer", None)
    if tokenizer is not None:
        settings["max_length"] = getattr(tokenizer, "model_max_length", None)
        settings["tokenizer"] = _content(tokenizer)
    return settings


def _content(tokenizer: Any) -> dict[str, Any]:
    """What decides the tokens of a text."""
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # the wrapped one, in front of vectors of words
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        # Padding and truncation are state of the last call, not of the tokenizer.
        return {
            key: value
            for key, value in json.loads(backend.to_str()).items()
            if key not in ("padding", "truncation")
        }
    vocabulary = tokenizer.get_vocab()
    # A tokenizer of words has a list of them, and stop words and case count as well.
    return vocabulary if isinstance(vocabulary, dict) else vars(tokenizer)


def _plain(value: Any) -> Any:
    """A value that JSON does not have; a set in an order that does not depend on the process."""
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
