"""The contract of everything that turns texts into vectors, and how a search and a record use it."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Precision = Literal["float32", "reduced"]
"""`float32` equals `SentenceTransformer.encode` to rounding; `reduced` may use fewer bits where that is
faster on this machine."""
Role = Literal["query", "document"]
"""Role of a text in a search: some models have a prompt or a network for each."""
Similarity = Literal["cosine", "dot"]
"""How a search compares vectors."""
Vectors = NDArray[np.float32]

BAGS = "torch, bags of tokens"
"""The `backend` of an encoder that looks tokens up, and encodes tens of thousands of texts per second."""
# The prompts of each role by their names in a model, in the order in which they are tried.
_PROMPTS: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


class NonFiniteError(InputError):
    """A text's vector contains NaN or infinity: the encoder has diverged, or its weights are damaged."""


class TextEncoder(Protocol):
    """Anything that turns texts into vectors.

    An encoder may have more: `for_role(role)`, if it encodes queries and documents in different ways;
    `similarity`, the name of the similarity of its vectors; and `tokens`, how much of a text it reads.

    Example:
        >>> encoder: TextEncoder = load_encoder("static-mini")
        >>> encoder.name, encoder.dimension
        ('static-mini', 256)
    """

    @property
    def name(self) -> str:
        """Name in tables and records."""

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever the vector of a text may change; it does not depend on paths."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts.

        Args:
            texts: The texts; empty strings are legal, repetitions cost nothing.
            progress: Show a progress bar.

        Returns:
            float32 array of shape (len(texts), dimension), in the order of `texts`; equal texts have equal
            vectors.

        Raises:
            InputError: A text is not a string; the message has its index.
            NonFiniteError: A vector is not finite; the message has the index of its text.
        """

    def describe(self) -> dict[str, Any]:
        """Describe for records how vectors are computed: backend, precision, versions; JSON values only."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """A model by name and the options that decide its vectors, so that it can be loaded again elsewhere.

    Args:
        model: Folder, word-vector file or hub id.
        pooling: Pooling of a folder or hub id.
        precision: `float32` or `reduced`.
        max_length: Maximum input length in tokens.

    Example:
        >>> EncoderSpec("static-mini").model
        'static-mini'
    """

    model: str
    pooling: str | None = None
    precision: Precision = "float32"
    max_length: int | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> EncoderSpec:
        """Select the arguments of `load_encoder` that decide the vectors."""
        return cls(**{field.name: arguments[field.name] for field in fields(cls) if field.name in arguments})

    def seen_from(self, folder: Path) -> EncoderSpec:
        """Return the same model by its path from a folder, if it has one: the two can be moved together."""
        path = Path(self.model).expanduser()
        if not path.exists():
            return self
        return replace(self, model=os.path.relpath(path.resolve(), folder.resolve()))

    def located(self, folder: Path = Path()) -> EncoderSpec:
        """Return the same model by its absolute path, if it is in a folder or the working folder."""
        path = folder / Path(self.model).expanduser()
        return replace(self, model=str(path.resolve())) if path.exists() else self

    def load(self, **options: Any) -> TextEncoder:
        """Load the encoder; further arguments of `load_encoder` are `device`, `cache_dir` and `data_dir`."""
        from sentemb.encoding.resolve import load_encoder

        return load_encoder(
            self.model,
            pooling=self.pooling,  # type: ignore[arg-type]  # load_encoder refuses unknown poolings
            precision=self.precision,
            max_length=self.max_length,
            **options,
        )


def for_role(encoder: TextEncoder, role: Role) -> TextEncoder:
    """Return the encoder of queries or of documents that a search needs.

    For a sentence-transformers model it uses the prompt and the route of the role, or is the same encoder if
    these make no difference. An encoder without `for_role`, such as a function or word vectors, encodes
    queries and documents alike.

    Example:
        >>> queries = for_role(load_encoder("static-mini"), "query")
        >>> queries.encode(["how do I sort a list"]).shape
        (1, 256)
    """
    own = getattr(encoder, "for_role", None)
    chosen: TextEncoder = encoder if own is None else own(role)
    return chosen


def select_prompt(prompts: Mapping[str, str | None], default: str | None, role: Role | None) -> str:
    """Select the prompt of a role, which may be empty; without a role, the default prompt."""
    # sentence-transformers gives every model an empty `document` prompt and never looks further. Here the
    # first prompt with any text counts, so that `passage` and `corpus` are used too.
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
    compared = "which is not supported; its vectors are compared by cosine similarity"
    logger.warning("%s was trained for the %s distance, %s", name, own, compared)


def unique_texts(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Return the unique texts, and the place of each text among them."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings, not a string", "wrap it in a list")
    if not set(map(type, texts)) <= {str}:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                message = f"text {index} is a {type(text).__name__}, not a string"
                raise InputError(message, "remove or convert it before encoding")
    unique = list(dict.fromkeys(texts))
    if len(unique) == len(texts):
        return unique, np.arange(len(texts))
    places = {text: place for place, text in enumerate(unique)}
    return unique, np.fromiter(map(places.__getitem__, texts), np.intp, len(texts))


def normalised(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1, so that their inner product is the cosine; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def check_finite(vectors: Vectors, texts: Sequence[str], *, name: str) -> None:
    """Raise NonFiniteError if vectors contain NaN or infinities."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        text = f"text {bad[0]} ({texts[bad[0]][:40]!r}), {len(bad)} in total"
        hint = "check the model's weights, or encode in float32"
        raise NonFiniteError(f"{name} returned NaN or infinity for {text}", hint)
