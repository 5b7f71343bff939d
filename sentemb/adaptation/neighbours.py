"""Documents that share rare words, for batches whose negatives are hard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from sentemb.data.bm25 import CountedQueries, bm25_scores, bm25_weights, count_terms

NEIGHBOURS = 16
MARGIN = 0.6
"""A neighbour that scores this share of what the document scores itself may say the same, and is no negative
(the percentage of the positive's score: Moreira et al., NV-Retriever. 2024)."""
_BLOCK = 1 << 24  # scores at a time


def nearest_documents(texts: Sequence[str], *, language: str) -> list[list[int]]:
    """The neighbours of each text by BM25, the nearest first, without itself and its near copies.

    Args:
        texts: The texts.
        language: Code of their language.

    Returns:
        Numbers of up to 16 other texts, for each.
    """
    counts, _ = count_terms(texts, language)
    weights = bm25_weights(counts)
    asked = counts.copy()
    asked.data = np.minimum(asked.data, 1.0)
    found: list[list[int]] = []
    wanted = min(NEIGHBOURS, len(texts) - 1)
    for scores in bm25_scores(
        weights, CountedQueries(asked, csr_array(asked.shape)), max(1, _BLOCK // len(texts))
    ):
        for own in scores:
            number = len(found)
            limit = MARGIN * own[number]
            own[(own >= limit) | (own <= 0)] = -1.0
            own[number] = -1.0
            best = np.argpartition(-own, wanted)[:wanted] if wanted else np.empty(0, dtype=np.intp)
            best = best[own[best] > 0]
            found.append(best[np.argsort(-own[best], kind="stable")].tolist())
    return found
