"""What the rest of sentemb asks of anything that turns texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sentemb.errors import InputError

Precision = Literal["float32", "reduced"]
"""`float32` equals `SentenceTransformer.encode` to rounding; `reduced` may use fewer bits where that is
faster here."""

Role = Literal["query", "document"]
"""What a text is in a search: some models want another prompt before each, or have a network for each."""

Vectors = NDArray[np.float32]


BAGS = "torch, bags of tokens"
"""The `backend` of an encoder that looks tokens up, and encodes some ten thousand texts a second."""


class NonFiniteError(InputError):
    """A text's vector holds NaN or infinity: the encoder has diverged or its weights are damaged."""


class TextEncoder(Protocol):
    """Anything that turns texts into vectors.

    An encoder may have more: `for_role(role)`, which returns the encoder of queries or documents where these
    are encoded in different ways, and `similarity`, the name of the similarity of its vectors.

    Example:
        >>> encoder: TextEncoder = load_encoder("static-mini")
        >>> encoder.name, encoder.dimension
        ('static-mini', 256)
    """

    @property
    def name(self) -> str:
        """What tables and records call it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of a text may change; names the content, not the place."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts.

        Args:
            texts: The texts; empty strings are legal, repetitions cost nothing.
            progress: Show a progress bar.

        Returns:
            float32 array of shape (len(texts), dimension), in the order of `texts`; equal texts have equal
            vectors.

        Raises:
            InputError: A text is no string; the message has its index.
            NonFiniteError: A vector is not finite; the message has the index of its text.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made: backend, precision, versions; JSON values only, for records."""
        ...


def unique_texts(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Reduce texts to the unique ones."""
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings, not a string", "wrap it in a list")
    places: dict[str, int] = {}
    positions = np.empty(len(texts), dtype=np.intp)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"text {index} is a {type(text).__name__}, not a string",
                "remove or convert it before encoding",
            )
        positions[index] = places.setdefault(text, len(places))
    return list(places), positions


def normalised(vectors: Vectors) -> Vectors:
    """Vectors of length 1, so that their inner product is the cosine; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def check_finite(vectors: Vectors, texts: Sequence[str], *, name: str) -> None:
    """Refuse vectors with NaN or infinities."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        index = int(bad[0])
        raise NonFiniteError(
            f"{name} returned NaN or infinity for text {index} ({texts[index][:40]!r}), {len(bad)} in total",
            "check the model's weights, or encode in float32",
        )
