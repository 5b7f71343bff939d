"""Fusion is what a loop computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb._fusion import Ranking, fuse

RUN = st.lists(st.integers(0, 8), unique=True)


def of(documents: list[int]) -> Ranking:
    return Ranking(np.array(documents, dtype=np.int32), -np.arange(len(documents), dtype=np.float32))


@settings(deadline=None)
@given(RUN, RUN, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_fusion_adds_reciprocal_ranks(dense: list[int], keyword: list[int], weight: float) -> None:
    gains: dict[int, float] = {}
    for part, own in ((dense, 2 * weight), (keyword, 2 - 2 * weight)):
        for rank, document in enumerate(part, start=1):
            gains[document] = gains.get(document, 0.0) + own / (60 + rank)
    order = sorted(gains, key=lambda document: (-gains[document], document))
    for depth in (5, None):
        fused = fuse(of(dense), of(keyword), weight, depth)
        assert fused.documents.tolist() == order[:depth]
        assert fused.scores == pytest.approx([gains[document] for document in order[:depth]], rel=1e-12)


def test_two_that_found_nothing_fuse_to_nothing() -> None:
    assert fuse(of([]), of([])).documents.tolist() == []
