"""Queries and documents: the prompts and the similarity that a model was trained for."""

from __future__ import annotations

from typing import Literal

from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.encoder import Role, TextEncoder
from sentemb.encoding.sentence import SentenceEncoder

Similarity = Literal["cosine", "dot"]


def for_role(encoder: TextEncoder, role: Role) -> TextEncoder:
    """The encoder of queries or of documents that a search needs.

    Args:
        encoder: Any encoder.
        role: `query` or `document`.

    Returns:
        An encoder that gives what `encode_query` or `encode_document` of a sentence-transformers model gives;
        the same encoder where the model makes no difference, and of functions and word vectors.
    """
    if isinstance(encoder, CachedEncoder):
        return encoder.around(for_role(encoder.encoder, role))
    return encoder.for_role(role) if isinstance(encoder, SentenceEncoder) else encoder


def similarity_of(encoder: TextEncoder) -> Similarity:
    """The similarity of an encoder's vectors: the dot product where the model says so, else the cosine."""
    if isinstance(encoder, CachedEncoder):
        return similarity_of(encoder.encoder)
    own = encoder.model.similarity_fn_name if isinstance(encoder, SentenceEncoder) else "cosine"
    return "dot" if own == "dot" else "cosine"
