"""Vectors of one or several teachers, as labels of the losses that learn a teacher's similarities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sentemb.encoding.encoder import Vectors, normalised
from sentemb.encoding.resolve import load_encoder
from sentemb.errors import InputError


def teacher_vectors(
    teachers: Sequence[Any], texts: Sequence[str], *, weights: Sequence[float] | None = None
) -> Vectors:
    """Encode texts by one or several teachers.

    The cosine of two of these vectors is the weighted mean of the teachers' cosines, whatever the dimensions
    of the teachers.

    Args:
        teachers: Anything that `load_encoder` takes.
        texts: n texts.
        weights: The weight of each teacher; equal weights by default. RankCSE's two have 1/3 and 2/3.

    Returns:
        Vectors of length 1, `(n, sum of the dimensions)`.

    Raises:
        InputError: There is no teacher, or not every teacher has a positive weight.

    Example:
        >>> teacher_vectors(["bert-mini", "static-mini"], ["a cat", "a dog"]).shape
        (2, 512)
    """
    check_weights(len(teachers), weights)
    return mix_vectors([normalised(load_encoder(one).encode(texts)) for one in teachers], weights)


def mix_vectors(parts: Sequence[Vectors], weights: Sequence[float] | None = None) -> Vectors:
    """Concatenate the unit vectors of several teachers so that cosines are weighted means of theirs."""
    shares = np.asarray([1.0] * len(parts) if weights is None else weights, dtype=np.float64)
    factors = np.sqrt(shares / shares.sum()).astype(np.float32)
    return np.concatenate([factor * part for factor, part in zip(factors, parts, strict=True)], axis=1)


def check_weights(teachers: int, weights: Sequence[float] | None) -> None:
    """Raise InputError unless every teacher has a positive weight."""
    if teachers == 0 or (weights is not None and (len(weights) != teachers or min(weights) <= 0)):
        raise InputError(
            f"{teachers} teachers with the weights {weights}", "give every teacher a positive weight"
        )
