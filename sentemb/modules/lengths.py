"""Shortest and longest inputs of a model in tokens."""

from __future__ import annotations

import logging
import math
from typing import Any

from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

from sentemb._compat import Router, Transformer
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


def limit_length(model: SentenceTransformer, max_length: int | None, *, address: str) -> None:
    """Set the longest input of a model's transformers, or check their own limits."""
    transformers = [module for module in model.modules() if isinstance(module, Transformer)]
    if max_length is not None and not transformers:
        raise InputError(
            f"{type(model[0]).__name__} does not support max_length (here {max_length})", "remove max_length"
        )
    for transformer in transformers:
        if max_length is None:
            _check_length(transformer, address)
        else:
            _set_length(transformer, max_length)


def _check_length(transformer: Transformer, address: str) -> None:
    """Raise InputError if the limit is too short for any text; lower it to the number of positions."""
    own, shortest = transformer.max_seq_length, _shortest(transformer.tokenizer)
    if own is not None and own < shortest:
        raise InputError(
            f"the maximum input length of {address} is {own} tokens, which is too short for any text",
            f"set max_seq_length in its configuration, or pass a length of at least {shortest}",
        )
    rows = _position_rows(transformer)
    if own is not None and rows is not None and own > rows:
        logger.warning("%s reads at most %d tokens, not %d: longer texts are truncated", address, rows, own)
        transformer.max_seq_length = rows


def _set_length(transformer: Transformer, max_length: int) -> None:
    longest, shortest = transformer.max_seq_length, _shortest(transformer.tokenizer)
    positions = getattr(transformer.config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        longest = max(longest or 0, _position_rows(transformer) or positions)
    if max_length < shortest or (longest is not None and max_length > longest):
        raise InputError(
            f"max_length {max_length} is not supported by the model, which accepts {shortest} to "
            f"{longest} tokens",
            "choose a length in this range",
        )
    transformer.max_seq_length = max_length


def longest_input(model: SentenceTransformer) -> int | None:
    """Return the tokens of the longest input: the minimum of a Router's networks; None without a limit."""
    first = model[0]
    modules = [route[0] for route in first.sub_modules.values()] if isinstance(first, Router) else [first]
    found = [getattr(module, "max_seq_length", None) for module in modules]
    return min((int(one) for one in found if one is not None and math.isfinite(one)), default=None)


def shortest_input(model: SentenceTransformer, *, pairs: bool = False) -> int:
    """Return the tokens of the shortest input with the special tokens and one token per text."""
    return _shortest(getattr(model[0], "tokenizer", None), pairs=pairs)


def _shortest(tokenizer: Any, *, pairs: bool = False) -> int:
    # The plain tokenizers of static encoders and word vectors do not add special tokens.
    count = getattr(tokenizer, "num_special_tokens_to_add", None)
    special = 0 if count is None or isinstance(tokenizer, Tokenizer) else count(pair=pairs)
    return int(special) + (2 if pairs else 1)


def _position_rows(first: nn.Module) -> int | None:
    """Return the number of usable rows of the position table; None if positions are computed.

    RoBERTa starts after its padding index. In a Router, the first network with a table counts.
    """
    for module in first.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    return None
