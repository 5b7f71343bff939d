"""How many tokens a model takes."""

from __future__ import annotations

import logging
import math
from typing import Any

from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

from sentemb._compat import Router
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


def limit_length(model: SentenceTransformer, max_length: int | None, *, address: str) -> None:
    """Set the longest input, or check the model's own."""
    tokenizer: Any = getattr(model[0], "tokenizer", None)
    # A static encoder's bare tokenizer never cuts, and has no positions to run out of.
    if isinstance(tokenizer, Tokenizer) or not hasattr(tokenizer, "num_special_tokens_to_add"):
        if max_length is None:
            return
        raise InputError(
            f"max_length {max_length} cannot be set on {type(model[0]).__name__}", "leave it out"
        )
    shortest = shortest_input(model)
    own = model.max_seq_length
    if max_length is None:
        if own is not None and own < shortest:
            raise InputError(
                f"the longest input of {address} is {own} tokens, which leaves no room for a text",
                f"set max_seq_length in its configuration, or give a length of at least {shortest}",
            )
        rows = _position_rows(model[0])
        if own is not None and rows is not None and own > rows:
            logger.warning("%s takes %d tokens, not %d: longer texts are cut there", address, rows, own)
            model.max_seq_length = rows
        return
    longest = own
    positions = getattr(getattr(model[0], "config", None), "max_position_embeddings", None)
    if positions is not None and positions > 0:
        longest = max(longest or 0, _position_rows(model[0]) or positions)
    if max_length < shortest or (longest is not None and max_length > longest):
        raise InputError(
            f"max_length {max_length} does not fit the model, which takes {shortest} to {longest} tokens",
            "choose a length in that range",
        )
    model.max_seq_length = max_length


def longest_input(model: SentenceTransformer) -> int | None:
    """Tokens of the longest input; the least of a Router's networks, and None without a limit."""
    first = model[0]
    modules = [route[0] for route in first.sub_modules.values()] if isinstance(first, Router) else [first]
    found = [getattr(module, "max_seq_length", None) for module in modules]
    return min((int(one) for one in found if one is not None and math.isfinite(one)), default=None)


def shortest_input(model: SentenceTransformer, *, pairs: bool = False) -> int:
    """Tokens of the shortest input that has room for a token of each text between the special ones."""
    tokenizer: Any = getattr(model[0], "tokenizer", None)
    # A static encoder's bare tokenizer adds none.
    bare = tokenizer is None or isinstance(tokenizer, Tokenizer)
    special = 0 if bare else tokenizer.num_special_tokens_to_add(pair=pairs)
    return int(special) + (2 if pairs else 1)


def _position_rows(first: nn.Module) -> int | None:
    """Rows of the position table that a token can use; None where positions are computed.

    RoBERTa starts after its padding index. Of a Router's networks the first counts that has a table.
    """
    for module in first.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    return None
