"""Which index fits, and the least effort and the fewest candidates that reach its recall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.documents import Numbers
from sentemb.search.plan import estimate_bytes, format_bytes, kind_of, parse_bytes, plan_index
from sentemb.search.vectors import (
    STEPS,
    TARGET,
    VectorIndex,
    candidates_for,
    exact_neighbors,
    recall_at_k,
    tune,
)
from tests.search.bag_of_words import BagOfWords, clustered


@pytest.mark.parametrize(
    ("count", "budget", "factory"),
    [
        (1, None, "Flat"),
        (50_000, None, "Flat"),
        (50_001, None, "HNSW32"),
        (200_000, 400 * 10**6, "HNSW32"),
        (200_000, 200 * 10**6, "IVF447,PQ384x4fs"),
        (200_000, 40 * 10**6, "IVF447,PQ192x4fs"),
        (200_000, 20 * 10**6, "IVF447,PQ96x4fs"),
        (200_000, 10 * 10**6, "IVF447,PQ48x4fs"),
        (2_000_000, None, "IVF1414,PQ384x4fs"),
        (40_000, 10 * 10**6, "IVF200,PQ384x4fs"),
    ],
)
def test_kind_follows_size_and_budget(count: int, budget: int | None, factory: str) -> None:
    plan = plan_index(count, 384, memory_budget=budget)
    assert plan.factory == factory
    assert plan.bytes <= (budget or 2 * 1024**3)
    assert f"{count:,} vectors" in plan.reason


@pytest.mark.parametrize("factory", ["Flat", "HNSW32", "IVF64,PQ16x4fs", "IVF64,PQ8x4fs"])
def test_estimate_is_the_size_of_the_file(tmp_path: Path, factory: str) -> None:
    vectors = clustered(6000, 32)
    index = VectorIndex.empty(factory, kind_of(factory), 32)
    index.train(vectors)
    index.add(vectors, np.arange(len(vectors)))
    index.write(tmp_path / "index")
    real = (tmp_path / "index").stat().st_size
    assert estimate_bytes(factory, len(vectors), 32) == pytest.approx(real, rel=0.03)


def test_a_kind_that_was_asked_for_is_kept() -> None:
    assert plan_index(10**7, 384, kind="flat").kind == "flat"
    assert plan_index(10, 384, kind="hnsw").kind == "hnsw"
    assert "as requested" in plan_index(10, 384, kind="hnsw").reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "annoy"}, "unknown index kind 'annoy'; choose one of auto, flat"),
        ({"memory_budget": 0}, "the memory budget is 0 bytes"),
        (
            {"memory_budget": 1000},
            "do not fit a memory budget of 1e\\+03 bytes|do not fit a memory budget of 1000 bytes",
        ),
        ({"kind": "flat", "memory_budget": 10**6}, "the smallest index needs"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_index(100_000, 384, **options)


def test_ivfpq_takes_a_quarter_of_a_byte_a_dimension_where_no_budget_says_otherwise() -> None:
    plan = plan_index(200_000, 384, kind="ivfpq")
    assert plan.bytes / 200_000 < 120
    assert plan_index(200_000, 384, kind="ivfpq", memory_budget=10**9).bytes > plan.bytes


@pytest.mark.parametrize(("count", "dimension"), [(100, 384), (100_000, 7)])
def test_ivfpq_needs_enough_vectors_of_enough_dimensions(count: int, dimension: int) -> None:
    with pytest.raises(InputError, match="ivfpq needs"):
        plan_index(count, dimension, kind="ivfpq")
    assert kind_of(plan_index(count, dimension).factory) != "ivfpq"


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500 * 10**6), ("2GiB", 2 * 1024**3), ("1.5 gb", 15 * 10**8), ("64k", 64_000), ("2000", 2000)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "many", "-5MB", "5XB", "1e9", "٣MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a size"):
        parse_bytes(text)


def test_sizes_are_written_for_people() -> None:
    assert [format_bytes(size) for size in (12, 2048, 5 * 1024**2, 3 * 1024**3)] == [
        "12 bytes", "2 KiB", "5 MiB", "3 GiB",
    ]  # fmt: skip


def test_an_expert_may_pass_a_factory() -> None:
    plan = plan_index(10**6, 64, factory="IVF4096,PQ16x4fs")
    assert (plan.kind, plan.factory) == ("ivfpq", "IVF4096,PQ16x4fs")
    with pytest.raises(InputError, match="is not of the kind hnsw"):
        plan_index(10**6, 64, kind="hnsw", factory="IVF4096,PQ16x4fs")
    index = SearchIndex.build([f"w{n}" for n in range(40)], BagOfWords(), factory="IVF2,SQ8")
    assert index.manifest.factory == "IVF2,SQ8" and index.search("w3", 1)[0].id == 3
    index.delete([7])
    index.compact()
    assert index.manifest.factory == "IVF2,SQ8" and index.search("w3", 1)[0].id == 3
    assert plan_index(10**6, 64, factory="IVF4096,PQ16x4fs,RFlat").factory == "IVF4096,PQ16x4fs"
    with pytest.raises(InputError, match="the factory PQ8 is not supported; use Flat, HNSW32 or"):
        SearchIndex.build(["w1"], BagOfWords(), factory="PQ8")
    with pytest.raises(InputError, match=r"cannot train the index on 3 vectors: .*; use fewer lists"):
        SearchIndex.build(["w1", "w2", "w3"], BagOfWords(), factory="IVF64,SQ8")
    with pytest.raises(InputError, match="faiss cannot make the factory Nonsense7 for 32 dimensions"):
        SearchIndex.build(["w1"], words := BagOfWords(), factory="Nonsense7")
    assert not words.encoded


def made(factory: str, kind: str, **options: int) -> tuple[VectorIndex, np.ndarray, np.ndarray, Numbers]:
    """An index of vectors, these, others as queries, and the places of their exact neighbors."""
    vectors = normalised(clustered(4000, 32, **options))
    held, rest = vectors[:200], vectors[200:]
    index = VectorIndex.empty(factory, kind, 32)  # type: ignore[arg-type]
    if size := index.training_size(len(rest)):
        index.train(rest[:size])
    index.add(rest, np.arange(len(rest)))
    return index, rest, held, exact_neighbors(held, 10, [(rest, np.arange(len(rest)))])


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
