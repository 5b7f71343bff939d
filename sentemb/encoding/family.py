"""Models over one transformer: each unique text goes through it once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.fingerprint import fingerprint_of
from sentemb.encoding.sentence import SentenceEncoder, is_plain_text_model
from sentemb.encoding.tokens import Tokens
from sentemb.encoding.view import Branches, view_with_states, with_modules
from sentemb.errors import InputError


def encode_together(models: Mapping[str, SentenceTransformer]) -> list[TextEncoder]:
    """Make encoders of models that differ only in what follows their transformer.

    Poolings of one checkpoint, or flows fitted with several seeds: the first encoder that is asked for some
    texts encodes them for all, and the others, asked for the same ones, are handed what it kept.

    Args:
        models: The models by the names that records call them. Nobody trains them meanwhile.

    Returns:
        An encoder for each model, in their order.

    Raises:
        InputError: There is no model, one is no plain text pipeline, or one has another transformer.

    Example:
        >>> poolings = {name: load("bert-mini", pooling=name) for name in ("cls", "mean")}
        >>> [encoder.encode(["a cat sat"]).shape for encoder in encode_together(poolings)]
        [(1, 256), (1, 256)]
    """
    if not models:
        raise InputError("the list of models is empty", "pass at least one model")
    family = _Family(models)
    return [_Member(family, number, name, model) for number, (name, model) in enumerate(models.items())]


class _Family:
    """The transformer with what every model does after it, and the vectors of the last texts."""

    def __init__(self, models: Mapping[str, SentenceTransformer]) -> None:
        (first, leader), *_ = models.items()
        wanted = _transformer_fingerprint(leader)
        for name, model in models.items():
            if not is_plain_text_model(model) or model.truncate_dim is not None:
                raise InputError(
                    f"{name} is not a plain text pipeline and cannot be encoded together with others",
                    "encode with it separately",
                )
            if _transformer_fingerprint(model) != wanted:
                raise InputError(
                    f"{name} differs from {first} in its transformer, tokenizer, maximum length or prompt",
                    "encode together only variants of the same model",
                )
        all_states = any(
            getattr(model[0].model.config, "output_hidden_states", False) for model in models.values()
        )
        transformer = view_with_states(leader[0], wanted=all_states)
        branches = Branches([list(model)[1:] for model in models.values()])
        joined = with_modules(leader, [transformer, branches])
        self.encoder = SentenceEncoder(joined, name=" + ".join(models), frozen=True)
        widths = [int(model.get_embedding_dimension() or 0) for model in models.values()]
        self._ends = np.cumsum(widths)[:-1]
        self._texts: list[str] = []
        self._vectors: list[Vectors] = []

    def encode(self, texts: Sequence[str], *, progress: bool) -> list[Vectors]:
        """Vectors of every model, in their order."""
        if not self._vectors or list(texts) != self._texts:
            vectors = self.encoder.encode(texts, progress=progress)
            self._texts, self._vectors = list(texts), np.split(vectors, self._ends, axis=1)
        return self._vectors


class _Member:
    """One model of a family as a `TextEncoder`."""

    def __init__(self, family: _Family, number: int, name: str, model: SentenceTransformer) -> None:
        self._family, self._number = family, number
        self.name = name
        self.fingerprint = fingerprint_of(model)
        self.dimension = int(model.get_embedding_dimension() or 0)

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the transformer."""
        return self._family.encoder.tokens

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        return np.ascontiguousarray(self._family.encode(texts, progress=progress)[self._number])

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return self._family.encoder.describe()


def _transformer_fingerprint(model: SentenceTransformer) -> str:
    # Whether it returns the states of all layers depends on what comes after, and changes none of them.
    return fingerprint_of(with_modules(model, [view_with_states(model[0], wanted=False)]))
