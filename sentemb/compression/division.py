"""Documents to calibrate variants on, and others to price them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sentemb.compression.variants import CALIBRATED
from sentemb.data.own_documents import OwnDocument

PRICED = 500
"""Documents that queries are cut from and that are searched."""


class Division(NamedTuple):
    """Documents in two parts.

    Attributes:
        calibration: Texts to calibrate on.
        priced: Documents to price on.
        shared: How many of the calibration texts are priced documents.
    """

    calibration: list[str]
    priced: list[OwnDocument]
    shared: int


def divide_documents(documents: Sequence[OwnDocument], *, seed: int = 0) -> Division:
    """Divide documents, since what a variant was fitted on says too little of what it loses elsewhere.

    Args:
        documents: The documents.
        seed: Of the draw.

    Returns:
        500 documents to price on, and 600 texts of the others; where the others are fewer, priced documents
        make up for them.

    Example:
        >>> division = divide_documents(documents)  # doctest: +SKIP
    """
    order = np.random.default_rng(seed).permutation(len(documents)).tolist()
    priced, others = order[:PRICED], order[PRICED:]
    shared = priced[: max(0, CALIBRATED - len(others))]
    return Division(
        [documents[number].whole for number in [*others[:CALIBRATED], *shared]],
        [documents[number] for number in priced],
        len(shared),
    )
