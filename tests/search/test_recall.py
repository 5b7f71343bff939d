"""Recall is measured on vectors that the index has not seen; the least effort that reaches it is taken."""

from __future__ import annotations

import numpy as np

from sentemb.encoding.encoder import normalised
from sentemb.search.documents import Numbers
from sentemb.search.vectors import (
    STEPS,
    TARGET,
    ExactNeighbours,
    VectorIndex,
    candidates_for,
    hold_out,
    rank,
    recall_at_k,
    score,
    score_unique,
    tune,
)
from tests.search.bag_of_words import clustered


def made(factory: str, kind: str, **options: int) -> tuple[VectorIndex, np.ndarray, np.ndarray, Numbers]:
    """An index of vectors, these, others as queries, and the places of their exact neighbors."""
    vectors = normalised(clustered(4000, 32, **options))
    held, rest = vectors[:200], vectors[200:]
    index = VectorIndex.empty(factory, kind, 32)  # type: ignore[arg-type]
    if size := index.training_size(len(rest)):
        index.train(rest[:size])
    index.add(rest, np.arange(len(rest)))
    exact = ExactNeighbours(held)
    exact.add(rest, np.arange(len(rest)))
    return index, rest, held, exact.numbers()


def test_held_out_queries_are_a_tenth_at_most() -> None:
    assert len(hold_out(199)) == 0
    held = hold_out(1000)
    assert len(held) == len(set(held.tolist())) == 100
    assert held.tolist() == sorted(held) and held.max() < 1000
    # What many vectors are compared with is bounded, and enough to tell a recall.
    assert [len(hold_out(count)) for count in (10**6, 4 * 10**6, 10**8)] == [2000, 500, 200]


def test_exact_neighbours_in_pieces_are_the_exact_neighbours() -> None:
    vectors = normalised(clustered(1000, 16))
    queries, numbers = vectors[:7], np.arange(7, 1000) * 3
    exact = ExactNeighbours(queries)
    for start, stop in ((7, 8), (8, 300), (300, 1000)):  # pieces shorter than 10 too
        exact.add(vectors[start:stop], numbers[start - 7 : stop - 7])
    expected = numbers[np.argsort(-(queries @ vectors[7:].T), axis=1)[:, :10]]
    assert np.array_equal(exact.numbers(), expected)
    assert recall_at_k(np.array([[3, 2, 1, 9]]), np.array([[1, 2, 3, 4]])) == 0.75


def test_effort_is_the_least_that_reaches_the_target() -> None:
    index, rest, held, truth = made("HNSW8", "hnsw", clusters=20)
    recall, rescored = tune(index, held, truth, lambda places: rest[places])
    assert rescored == 0
    assert recall.queries == recall.tuning_queries == 100
    assert recall.at_10 == recall_at_k(index.search(held[1::2], 10), truth[1::2])
    place = index.efforts().index(index.effort)
    if place:
        index.effort = index.efforts()[place - 1]
        assert recall_at_k(index.search(held[::2], 10), truth[::2]) < TARGET


def test_the_fewest_candidates_of_codes_are_ranked_by_exact_vectors() -> None:
    index, rest, held, truth = made("IVF64,PQ16x4fs", "ivfpq")
    recall, rescored = tune(index, held, truth, lambda places: rest[places])
    assert recall.at_10 is not None and recall.at_10 >= 0.95 and rescored in STEPS
    assert [candidates_for(50, k) for k in (1, 10, 100, 1_000, 5_000)] == [50, 50, 500, 1_000, 5_000]


def test_exact_scores_decide_and_missing_candidates_come_last() -> None:
    vectors = np.eye(4, dtype=np.float32)
    queries = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], dtype=np.float32)
    for numbers, expected in (
        ([[0, 2, -1], [3, 1, 0]], [[2, 0], [0, 1]]),
        ([[-1, 2, 2], [-1, -1, -1]], None),
    ):
        places = np.array(numbers)
        scores = score_unique(queries, places, lambda some: vectors[some])
        assert np.array_equal(scores[places >= 0], score(queries, places, vectors)[places >= 0])
        found, best = rank(scores, places, 2)
        assert best.tolist() == (expected or [[2, 2], [-1, -1]])
    assert (found[0] == np.float32(0.3)).all() and np.isneginf(found[1]).all()
