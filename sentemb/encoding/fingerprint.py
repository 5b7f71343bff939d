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
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    add_weights(digest, model)
    return digest.hexdigest()


def _configuration(module: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if hasattr(module, "get_config_dict"):
        settings["module"] = module.get_config_dict()
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        settings["network"] = lasting_settings(config)
    tokenizer = getattr(module, "tokenizer", None)
    if tokenizer is not None:
        settings["max_length"] = getattr(tokenizer, "model_max_length", None)
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        # Padding and truncation are state of the last call, not of the tokenizer.
        text = backend.to_str() if hasattr(backend, "to_str") else json.dumps(tokenizer.get_vocab())
        content = json.loads(text)
        settings["tokenizer"] = {
            key: value for key, value in content.items() if key not in ("padding", "truncation")
        }
    return settings
