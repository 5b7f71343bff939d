"""Queries and documents: the prompts, routes and similarity that a model was trained for."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Literal, get_args

from sentemb.encoding.encoder import Role, TextEncoder

logger = logging.getLogger(__name__)

Similarity = Literal["cosine", "dot"]
# The prompts of each role by their names in a model, in the order in which they are tried.
_PROMPTS: dict[Role, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


def for_role(encoder: TextEncoder, role: Role) -> TextEncoder:
    """Return the encoder of queries or of documents that a search needs.

    Args:
        encoder: Any encoder.
        role: `query` or `document`.

    Returns:
        What the encoder's own `for_role` returns: for a sentence-transformers model an encoder that uses the
        prompt and the route of the role, or the same encoder where these make no difference. An encoder
        without that method, such as a function or word vectors, encodes queries and documents alike.

    Example:
        >>> queries = for_role(load_encoder("static-mini"), "query")
        >>> queries.encode(["how do I sort a list"]).shape
        (1, 256)
    """
    own = getattr(encoder, "for_role", None)
    chosen: TextEncoder = encoder if own is None else own(role)
    return chosen


def select_prompt(prompts: Mapping[str, str | None], default: str | None, role: Role | None) -> str:
    """Select the prompt of a role among the prompts of a model.

    sentence-transformers gives every model an empty `document` prompt and never looks further. Here the first
    prompt with any text counts, so that `passage` and `corpus` are used too.

    Args:
        prompts: The prompts by their names.
        default: The name of the prompt for texts without a role.
        role: The role; None selects the default prompt.

    Returns:
        The prompt, which may be empty.
    """
    names = [name for name in _PROMPTS[role] if name in prompts] if role else []
    if not names and default is not None:
        names = [default]
    return next((prompt for name in names if (prompt := prompts.get(name))), "")


def similarity_of(encoder: TextEncoder) -> Similarity:
    """Return how vectors of an encoder are compared: by the dot product or, in every other case, the cosine.

    A model that was trained for distances is compared by the cosine, which is logged once.

    Example:
        >>> similarity_of(load_encoder("static-mini"))
        'cosine'
    """
    own = getattr(encoder, "similarity", "cosine")
    if own not in get_args(Similarity):
        _warn_of_cosine(encoder.name, own)
    return "dot" if own == "dot" else "cosine"


@functools.cache
def _warn_of_cosine(name: str, own: str) -> None:
    logger.warning(
        "%s was trained for the %s distance, which is not supported; its vectors are compared by "
        "cosine similarity",
        name,
        own,
    )
