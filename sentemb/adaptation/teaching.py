"""Pairs with what a teacher thinks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from datasets import Dataset

from sentemb.adaptation.pairs import Pair
from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role


def taught(
    pairs: Sequence[Pair], teacher: TextEncoder, encode: Callable[[TextEncoder, Sequence[str]], Vectors]
) -> Dataset:
    """Label pairs with the teacher's vectors of both texts, as `InBatchDistillationLoss` takes them.

    Args:
        pairs: The pairs.
        teacher: It encodes queries as queries, and documents as documents.
        encode: Encodes texts by an encoder.

    Returns:
        The pairs in their order.
    """
    queries, documents = ([pair[side] for pair in pairs] for side in (0, 1))
    sides = [
        encode(for_role(teacher, "query"), queries),
        encode(for_role(teacher, "document"), documents),
    ]
    vectors = np.hstack(sides).astype(np.float32, copy=False)
    labels = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return Dataset(pa.table({"query": queries, "document": documents, LABEL: labels}))
