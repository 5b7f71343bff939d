"""Encoders over what other frameworks call embeddings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sentemb.encoding.encoder import Vectors, check_finite

# What the classes of LangChain call their model.
_MODEL_NAMES = ("model", "model_name", "model_id", "repo_id", "deployment", "dimensions")


class Embeddings(Protocol):
    """What LangChain asks of embeddings."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of documents."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        ...


class EmbeddingsEncoder:
    """Embeddings as the encoder of an index: they encode documents.

    Args:
        embeddings: The embeddings.
        name: What they are called, which is all that an index can recognise them by. By default their class
            and what it calls its model.
    """

    def __init__(self, embeddings: Embeddings, name: str | None = None) -> None:
        self._embeddings = embeddings
        self._dimension: int | None = None
        self.name = name or _name_of(embeddings)

    @property
    def fingerprint(self) -> str:
        """Changes with the name: what is behind it cannot be seen."""
        return hashlib.blake2b(self.name.encode(), digest_size=16).hexdigest()

    @property
    def dimension(self) -> int:
        """Length of a vector; asking for it embeds a word, once."""
        if self._dimension is None:
            self._dimension = len(self._embeddings.embed_query("dimension"))
        return self._dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """The vectors (n, dim) of documents."""
        vectors = np.array(self._embeddings.embed_documents(list(texts)), dtype=np.float32)
        check_finite(vectors, texts, name=self.name)
        return vectors

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made."""
        return {"backend": "embeddings", "name": self.name}


def _name_of(embeddings: Embeddings) -> str:
    kind = type(embeddings)
    values = ((name, getattr(embeddings, name, None)) for name in _MODEL_NAMES)
    told = [f"{name}={value}" for name, value in values if isinstance(value, (str, int))]
    return " ".join([f"{kind.__module__}.{kind.__qualname__}", *told])
