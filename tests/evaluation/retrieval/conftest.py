"""A small set of queries with qrels over the words of the tiny encoder."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.data.retrieval import RetrievalSet, retrieval_set
from tests.evaluation.conftest import sentences


def make_set(name: str = "mine", documents: int = 40, queries: int = 12, seed: int = 0) -> RetrievalSet:
    """Random sentences, some of them twice, with grades from -1 to 3."""
    generator = np.random.default_rng(seed)
    texts = sentences(documents, seed)
    texts[1] = texts[0]
    found = {f"d{number}": text for number, text in enumerate(texts)}
    asked = {f"q{number}": text for number, text in enumerate(sentences(queries, seed + 1))}
    judged = {
        query: {
            f"d{one}": int(generator.integers(-1, 4)) for one in generator.choice(documents, 4, replace=False)
        }
        for query in asked
    }
    return retrieval_set(found, asked, judged, name=name)


@pytest.fixture
def judged_set() -> RetrievalSet:
    """Forty documents, twelve queries with four judgements each."""
    return make_set()
