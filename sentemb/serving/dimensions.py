"""Fewer dimensions than a model has: what that costs, and which models were trained for it."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from sentemb.data.bundled_text import bundled_sentences
from sentemb.encoding.encoder import normalised
from sentemb.serving.batcher import ServedEncoder
from sentemb.serving.problems import Problem

_SENTENCES = 200


async def check_dimensions(served: ServedEncoder, dimensions: int) -> None:
    """Refuse to cut the vectors of a model that was not trained for it, and say what it would cost.

    Raises:
        Problem: The model has not so many, or was not trained to do with fewer.
    """
    if dimensions > served.dimension:
        raise Problem(409, f"{served.name} has {served.dimension} dimensions", field="dimensions")
    if dimensions == served.dimension or served.matryoshka:
        return
    agreement = await _agreement(served, dimensions)
    raise Problem(
        409,
        f"{served.name} was not trained to be shortened from {served.dimension} to {dimensions} dimensions: "
        f"the similarities of {_SENTENCES} sentences then have a Spearman correlation of {agreement:.3f} "
        "with the "
        f'original ones; send "force_dimensions": true to accept this',
        field="dimensions",
    )


async def _agreement(served: ServedEncoder, dimensions: int) -> float:
    """Spearman correlation of the cosines of all pairs of some sentences, cut and whole."""
    if dimensions not in served.agreement:
        encoded = await served.encode(bundled_sentences()[:_SENTENCES], priority="bulk", truncate="truncate")
        pairs = np.triu_indices(_SENTENCES, k=1)
        whole, cut = (normalised(vectors) for vectors in (encoded.vectors, encoded.vectors[:, :dimensions]))
        served.agreement[dimensions] = float(spearmanr((whole @ whole.T)[pairs], (cut @ cut.T)[pairs])[0])
    return served.agreement[dimensions]
