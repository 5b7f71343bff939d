"""Search is exact whatever the block, and ties go by id."""

from __future__ import annotations

import numpy as np
import pytest

from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.data.stored_texts import first_places
from sentemb.encoding.nearest import Hits, ranked
from sentemb.evaluation.retrieval.ranking import id_places, judged_ranks, nearest, without_themselves


@pytest.mark.parametrize("block", [1, 7 * 30, 1 << 24])
@pytest.mark.parametrize("depth", [1, 5, 30, 1000])
@pytest.mark.parametrize("size", [1, 7, 30])
def test_the_nearest_are_those_of_a_full_sort(
    block: int, depth: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.encoding.nearest._BLOCK", block)
    generator = np.random.default_rng(0)
    # Whole numbers, so that many products tie and none is rounded.
    queries, unique = (generator.integers(-2, 3, (size, 3)).astype(np.float32) for size in (11, 20))
    rows = generator.integers(0, 20, 30)
    firsts = first_places([str(row) for row in rows])
    numbers = np.flatnonzero(firsts == np.arange(30))
    blocks = [(some, unique[rows[some]]) for some in np.split(numbers, range(size, len(numbers), size))]
    data = retrieval_set({f"d{n}": "x" for n in range(30)}, {"q": "x"}, {"q": {"d0": 1}}, name="mine")
    found = nearest(queries, blocks, firsts, id_places(data), depth)
    for query, hits in zip(queries, found, strict=True):
        scores = unique[rows] @ query
        expected = sorted(range(30), key=lambda n: (scores[n], data.document_ids[n]), reverse=True)[:depth]
        assert hits.documents.tolist() == expected
        assert np.array_equal(hits.scores, scores[expected])


def test_scores_that_differ_in_float64_alone_tie() -> None:
    hits = ranked(np.array([0, 1]), np.array([0.5 + 1e-12, 0.5]), np.array([1, 0], dtype=np.int32), 2)
    assert hits.documents.tolist() == [1, 0]


def test_ranks_of_judged_documents(judged_set: RetrievalSet) -> None:
    judged = judged_set.judged[judged_set.judged[:, 0] == 0, 1]
    other = next(number for number in range(40) if number not in judged)
    order = np.array([judged[2], other, judged[0]], dtype=np.int32)
    nothing = Hits(np.empty(0, np.int32), np.empty(0, np.float32))
    hits = [Hits(order, np.zeros(3, np.float32)), *[nothing] * (len(judged_set) - 1)]
    assert judged_ranks(hits, judged_set).tolist() == [3, 0, 1, 0] + [0] * 44


def test_a_query_does_not_find_itself() -> None:
    data = retrieval_set(
        {"a": "x", "b": "y"}, {"a": "x", "c": "z"}, {"a": {"b": 1}, "c": {"a": 1}}, name="own"
    )
    hits = [Hits(np.array([0, 1], np.int32), np.array([2, 1], np.float32))] * 2
    assert [one.documents.tolist() for one in without_themselves(hits, data, 1)] == [[1], [0]]
