"""An encoder without a network: a text is the sum of its words' random vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from sentemb.encoding.tokens import Tokens


class BagOfWords:
    """Deterministic in every process; counts what it is asked to encode."""

    name = "bag-of-words"

    def __init__(self, dimension: int = 32, fingerprint: str = "words-1") -> None:
        self._dimension = dimension
        self._fingerprint = fingerprint
        self.encoded: list[str] = []

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimension(self) -> int:
        return self._dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        self.encoded.extend(texts)
        return np.stack([self._vector(text) for text in texts])

    def describe(self) -> dict[str, Any]:
        return {"backend": "words"}

    def _vector(self, text: str) -> np.ndarray:
        vector = np.zeros(self._dimension, dtype=np.float32)
        for word in text.split():
            vector += _of_word(word, self._dimension)
        return vector


class FewWords(BagOfWords):
    """Reads no more than so many words of a text, each of which is a token."""

    def __init__(self, room: int = 2) -> None:
        super().__init__()
        words = Tokenizer(WordLevel({"word": 0}, unk_token="word"))
        words.pre_tokenizer = WhitespaceSplit()
        self.tokens = Tokens(SimpleNamespace(is_fast=True, backend_tokenizer=words), room)

    def _vector(self, text: str) -> np.ndarray:
        return super()._vector(" ".join(text.split()[: self.tokens.room]))


@cache
def _of_word(word: str, dimension: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimension, dtype=np.float32)


class Table:
    """Texts are the decimal row numbers of a matrix."""

    name = "table"
    fingerprint = "table-1"

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors

    @property
    def dimension(self) -> int:
        return int(self._vectors.shape[1])

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        return self._vectors[[int(text) for text in texts]]

    def describe(self) -> dict[str, Any]:
        return {"backend": "table"}


def clustered(count: int, dimension: int, *, clusters: int = 50, seed: int = 0) -> np.ndarray:
    """Vectors around random centres, as sentences lie around topics."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dimension))
    spread = rng.standard_normal((count, dimension))
    return (centres[rng.integers(clusters, size=count)] + 0.8 * spread).astype(np.float32)
