from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.search.codes import Codes, CodesPlan
from sentemb.search.recall import ExactNeighbours, share_found
from sentemb.search.vectors import VectorIndex
from tests.search.bag_of_words import clustered

PLAN = "IVF64,PQ7x4fs,Rest(PQ11x8)"  # parts that do not divide 32 dimensions


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return normalised(clustered(6000, 32))


@pytest.fixture(scope="module")
def index(vectors: np.ndarray) -> VectorIndex:
    made = VectorIndex.empty(PLAN, "ivfpq", 32)
    made.train(vectors[::2])
    for numbers in (np.arange(1000, 6000), np.arange(1000)):  # what is held out comes last
        made.add(vectors[numbers], numbers)
    made.effort = 64
    return made


def test_a_description_is_read_and_written() -> None:
    assert CodesPlan.read(PLAN) == (64, 7, 11) and CodesPlan(64, 7, 11).factory() == PLAN
    assert CodesPlan.read("IVF64,PQ16x4fs,Refine(SQ8)") is None


def test_vectors_come_back_by_their_numbers(index: VectorIndex, vectors: np.ndarray) -> None:
    numbers = np.array([5999, 3, 1000, 999, 3])
    rows = index.rows(numbers)
    assert np.linalg.norm(rows - vectors[numbers], axis=1).max() < 0.2
    assert rows[1] == pytest.approx(rows[4], abs=1e-5)


def test_scores_are_those_of_the_vectors_that_come_back(index: VectorIndex, vectors: np.ndarray) -> None:
    scores, numbers = index.search(vectors[:50], 10)
    exact = np.einsum("qkd,qd->qk", index.rows(numbers.ravel()).reshape(50, 10, 32), vectors[:50])
    assert scores == pytest.approx(exact, abs=0.01)  # the scan rounds its tables to 8 bits
    assert (np.diff(scores) <= 0).all()


def test_the_rest_says_what_the_scanned_codes_leave(index: VectorIndex, vectors: np.ndarray) -> None:
    truth = ExactNeighbours(vectors[:200])
    truth.add(vectors, np.arange(6000))
    exact = truth.numbers()
    codes = index._index
    scanned = codes.lists.search(codes._turned(vectors[:200]), 10)[1]
    both = share_found(index.search(vectors[:200], 10)[1], exact)
    assert both > 0.8 and both > share_found(scanned, exact) + 0.2


def test_a_file_answers_as_what_was_built(index: VectorIndex, vectors: np.ndarray, tmp_path: Path) -> None:
    index.write(tmp_path / "codes")
    read = VectorIndex.read(tmp_path / "codes", "ivfpq", 64)
    for one, other in zip(index.search(vectors[:20], 30), read.search(vectors[:20], 30), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(index.rows(np.arange(6000)), read.rows(np.arange(6000)))
    assert read.keeps_vectors and len(read) == 6000 and read.dimension == 32
    read.write(tmp_path / "again")
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "again").read_bytes()


def test_what_is_kept_keeps_its_codes(index: VectorIndex, vectors: np.ndarray, tmp_path: Path) -> None:
    index.write(tmp_path / "codes")
    read = VectorIndex.read(tmp_path / "codes", "ivfpq", 64)
    some = np.random.default_rng(0).permutation(6000)[:2500]
    places = np.arange(2500) + 100
    kept = read._index.kept(some, places)
    kept.add_with_ids(vectors[:100], np.arange(100))
    assert kept.ntotal == 2600
    assert np.abs(kept.reconstruct_batch(places) - index.rows(some)).max() < 1e-5
    assert np.abs(kept.reconstruct_batch(np.arange(100)) - index.rows(np.arange(100))).max() < 1e-5
    _, found = kept.search(vectors[some[:50]], 1, 100, 64)
    assert (found[:, 0] == places[:50]).mean() > 0.9
    assert index.search(vectors[:1], 6000)[1].shape == (1, 6000)  # the old one has all that it had


def test_axes_without_variance_cost_nothing() -> None:
    flat = normalised(clustered(3000, 32))
    flat[:, 20:] = 0
    index = Codes.empty(CodesPlan(16, 8, 8), 32)
    index.train(flat)
    index.add_with_ids(flat, np.arange(3000))
    assert np.isfinite(index.search(flat[:5], 5, 50, 16)[0]).all()
    assert np.abs(index.reconstruct_batch(np.arange(3000))[:, 20:]).max() < 1e-3
