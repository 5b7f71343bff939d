"""What has to be known of a translation model's files before it translates."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torch import nn

from sentemb.errors import InputError
from sentemb.modules.weights import add_weights, lasting_settings

_NO_LIMIT = 1 << 20
"""Tokenizers without a limit give a number of 31 digits."""
_USUAL_LIMIT = 512


def longest_input(config: Any, tokenizer: Any) -> int:
    """The tokens that a model takes."""
    limits = (getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    return min((limit for limit in limits if limit and limit < _NO_LIMIT), default=_USUAL_LIMIT)


def forced_language(tokenizer: Any, source: str | None, target: str | None, *, name: str) -> int | None:
    """Set the source language of a tokenizer of many languages and look the target language up."""
    if not hasattr(tokenizer, "src_lang"):
        if source or target:
            raise InputError(
                f"{name} does not support a choice of languages",
                "remove the languages, or put them in a prefix",
            )
        return None
    if not source or not target:
        raise InputError(
            f"{name} is multilingual and needs both languages",
            "set the source and target language codes of the model",
        )
    _language_token(tokenizer, source, name)
    token = _language_token(tokenizer, target, name)
    tokenizer.src_lang = source
    return token


def digest_of(network: nn.Module, tokenizer: Any) -> str:
    """Checksum of what decides a model's translations, besides the options of a call."""
    settings = [
        lasting_settings(network.config),
        lasting_settings(network.generation_config),
        type(tokenizer).__name__,
        {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        _vocabulary(tokenizer),
    ]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    add_weights(digest, network)
    return digest.hexdigest()


def _language_token(tokenizer: Any, code: str, name: str) -> int:
    vocabulary = tokenizer.get_vocab()
    for token in (f"__{code}__", code):  # M2M100 dresses them up, and has plain words that look like them
        if token in vocabulary:
            return int(vocabulary[token])
    raise InputError(
        f"{name} does not support the language {code!r}", "see the model card for its language codes"
    )


def _vocabulary(tokenizer: Any) -> dict[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return dict(tokenizer.get_vocab())
    # Padding and truncation are state of the last call, not of the tokenizer.
    content = json.loads(backend.to_str())
    return {name: value for name, value in content.items() if name not in ("padding", "truncation")}
