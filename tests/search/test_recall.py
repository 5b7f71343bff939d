from __future__ import annotations

import numpy as np

from sentemb.encoding.encoder import normalised
from sentemb.search.recall import TARGET, ExactNeighbours, hold_out, recall_at_k, tune_and_measure
from sentemb.search.rescoring import STEPS
from sentemb.search.vectors import VectorIndex
from tests.search.bag_of_words import clustered


def test_held_out_queries_are_a_tenth_at_most() -> None:
    assert len(hold_out(199)) == 0
    held = hold_out(1000)
    assert len(held) == len(set(held.tolist())) == 100
    assert held.tolist() == sorted(held) and held.max() < 1000
    assert len(hold_out(10**6)) == 2000
    # What many vectors are compared with is bounded, and enough to tell a recall.
    assert len(hold_out(4 * 10**6)) == 500
    assert len(hold_out(10**8)) == 200


def test_exact_neighbours_in_pieces_are_the_exact_neighbours() -> None:
    vectors = normalised(clustered(1000, 16))
    queries, numbers = vectors[:7], np.arange(7, 1000) * 3
    exact = ExactNeighbours(queries)
    for start in (7, 8, 300):  # pieces shorter than 10 too
        stop = {7: 8, 8: 300, 300: 1000}[start]
        exact.add(vectors[start:stop], numbers[start - 7 : stop - 7])
    expected = numbers[np.argsort(-(queries @ vectors[7:].T), axis=1)[:, :10]]
    assert np.array_equal(exact.numbers(), expected)


def test_recall_at_k_ignores_order() -> None:
    assert recall_at_k(np.array([[3, 2, 1, 9]]), np.array([[1, 2, 3, 4]])) == 0.75


def test_effort_is_the_least_that_reaches_the_target() -> None:
    vectors = normalised(clustered(4000, 32, clusters=20))
    held, rest = vectors[:200], vectors[200:]
    index = VectorIndex.empty("HNSW8", "hnsw", 32)
    index.add(rest, np.arange(len(rest)))
    exact = ExactNeighbours(held)
    exact.add(rest, np.arange(len(rest)))
    truth = exact.numbers()
    recall, rescored = tune_and_measure(index, held, truth, lambda places: rest[places])
    assert rescored == 0
    assert recall.queries == recall.tuning_queries == 100
    assert recall.at_10 == recall_at_k(index.search(held[1::2], 10)[1], truth[1::2])
    place = index.efforts().index(index.effort)
    if place:
        index.effort = index.efforts()[place - 1]
        assert recall_at_k(index.search(held[::2], 10)[1], truth[::2]) < TARGET


def test_the_fewest_candidates_of_codes_are_ranked_by_exact_vectors() -> None:
    vectors = normalised(clustered(4000, 32, clusters=20))
    held, rest = vectors[:200], vectors[200:]
    index = VectorIndex.empty("IVF64,PQ16x4fs", "ivfpq", 32)
    index.train(rest)
    index.add(rest, np.arange(len(rest)))
    exact = ExactNeighbours(held)
    exact.add(rest, np.arange(len(rest)))
    recall, rescored = tune_and_measure(index, held, exact.numbers(), lambda places: rest[places])
    assert recall.at_10 is not None and recall.at_10 >= 0.95
    assert rescored in STEPS


def test_measured_recall_is_that_of_strangers() -> None:
    """Queries that are in the index find themselves, so a tenth of their neighbours comes for nothing."""
    vectors = normalised(clustered(3000, 32))
    index = VectorIndex.empty("IVF64,PQ16x4fs", "ivfpq", 32)
    index.train(vectors[300:])
    index.add(vectors[300:], np.arange(300, 3000))
    exact = ExactNeighbours(vectors[:300])
    exact.add(vectors[300:], np.arange(300, 3000))
    truth = exact.numbers()
    assert truth.min() >= 300
    recall, _ = tune_and_measure(index, vectors[:300], truth - 300, lambda places: vectors[300 + places])
    assert recall.at_10 is not None and recall.at_10 >= 0.95
