from __future__ import annotations

import numpy as np
import pytest

from sentemb.search.recall import TARGET, ExactNeighbours, hold_out, share_found, tune_and_measure
from sentemb.search.vectors import VectorIndex, normalised
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


def test_share_found_ignores_order() -> None:
    assert share_found(np.array([[3, 2, 1, 9]]), np.array([[1, 2, 3, 4]])) == 0.75


def test_effort_is_the_least_that_reaches_the_target() -> None:
    vectors = normalised(clustered(4000, 32, clusters=20))
    held, rest = vectors[:200], vectors[200:]
    index = VectorIndex.empty("IVF64,PQ16x4fs,Refine(SQ8)", "ivfpq", 32)
    index.train(rest)
    index.add(rest, np.arange(len(rest)))
    exact = ExactNeighbours(held)
    exact.add(rest, np.arange(len(rest)))
    truth = exact.numbers()
    recall = tune_and_measure(index, held, truth)
    assert recall.queries == recall.tuning_queries == 100
    assert recall.at_10 == share_found(index.search(held[1::2], 10)[1], truth[1::2])
    index.effort = index.efforts()[index.efforts().index(index.effort) - 1]
    assert share_found(index.search(held[::2], 10)[1], truth[::2]) < TARGET


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
    assert tune_and_measure(index, vectors[:300], truth).at_10 == pytest.approx(0.75, abs=0.2)
