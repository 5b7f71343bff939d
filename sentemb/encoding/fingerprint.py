"""Names for what a model computes, independent of where it lies."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

# Where a model was loaded from and by which release says nothing about its vectors.
_INCIDENTAL = {"_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype"}


def fingerprint_of(model: SentenceTransformer) -> str:
    """Hash everything that decides a model's vectors: weights, tokenizer, modules, prompts, dimension.

    100 MB of weights take about a tenth of a second.
    """
    digest = hashlib.sha256()
    settings = {
        "modules": [[type(module).__name__, _configuration(module)] for module in model],
        "prompts": dict(sorted(model.prompts.items())),
        "default_prompt_name": model.default_prompt_name,
        "truncate_dim": model.truncate_dim,
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _configuration(module: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if hasattr(module, "get_config_dict"):
        settings["module"] = module.get_config_dict()
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        settings["network"] = {
            key: value for key, value in config.to_dict().items() if key not in _INCIDENTAL
        }
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


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().flatten()
    return memoryview(flat.view(torch.uint8).numpy().data)
