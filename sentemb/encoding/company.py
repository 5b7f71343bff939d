"""Whether a text's vector depends on what is encoded with it, found out by encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sentemb._threads import one_thread
from sentemb.encoding.encoder import TextEncoder


class Company(NamedTuple):
    """How vectors of texts encoded alone compare with those of the same texts encoded together.

    Attributes:
        texts: How many texts were compared.
        changed: How many have a vector with other bits.
        largest: The largest difference of two numbers.
    """

    texts: int
    changed: int
    largest: float

    @property
    def verdict(self) -> str:
        """What was found, in a few words."""
        if not self.changed:
            return f"identical alone and in a batch ({self.texts} texts)"
        return f"{self.changed} of {self.texts} texts depend on the batch, by up to {self.largest:.1g}"


def compare_batches(encoder: TextEncoder, texts: Sequence[str]) -> Company:
    """Encode texts together, in two halves, on one thread, and alone, and compare the bits.

    Args:
        encoder: Any encoder.
        texts: Texts of several lengths.

    Returns:
        The comparison.
    """
    together = encoder.encode(texts)
    halves = np.empty_like(together)
    halves[0::2], halves[1::2] = encoder.encode(texts[0::2]), encoder.encode(texts[1::2])
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    with one_thread():
        unthreaded = encoder.encode(texts)
    largest = np.abs(np.stack([halves, alone, unthreaded]) - together).max(axis=(0, 2))  # (texts,)
    return Company(len(texts), int((largest > 0).sum()), float(largest.max()))
