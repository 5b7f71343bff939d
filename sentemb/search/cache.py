"""Building the vector index of what a database holds: trained, filled, tuned and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from sentemb._files import settle, sha256_of
from sentemb.encoding.encoder import Vectors
from sentemb.search.calibration import calibrate, draw
from sentemb.search.encoded import Progress
from sentemb.search.manifest import Manifest, Recall
from sentemb.search.plan import IndexPlan, Kind, budget_of, plan_index, suits_ivfpq
from sentemb.search.recall import ExactNeighbours, hold_out, tune_and_measure
from sentemb.search.rescoring import STEPS
from sentemb.search.vectors import Numbers, VectorIndex

_BLOCK = 8_192

Rows = Callable[[Numbers], Vectors]
"""Gives the vectors (n, dim) at some places, as they are compared."""


class Built(NamedTuple):
    """A vector index and what was measured of it."""

    vectors: VectorIndex
    recall: Recall
    rescored: int


def plan_again(
    facts: Manifest,
    count: int,
    kind: Kind | Literal["auto"] | None,
    memory_budget: int | None,
    *,
    again: bool,
) -> IndexPlan:
    """Choose the vector index of an index that exists.

    Args:
        facts: The index.
        count: Number of vectors now.
        kind: The kind; by default the one that was requested, if any. One that was chosen by size is chosen
            again, unless it is `ivfpq`.
        memory_budget: Bytes the vector index may take; by default codes keep their size per vector.
        again: Whether the texts of candidates are encoded again.
    """
    if facts.asked_factory and kind is None and memory_budget is None:
        return plan_index(count, facts.dimension, factory=facts.asked_factory)
    keeps = facts.asked
    if facts.kind == "ivfpq":  # it may have been chosen for a budget that is not known any more
        keeps = suits_ivfpq(count, facts.dimension)
    same = kind is None and keeps
    if same and memory_budget is None:
        before = IndexPlan(facts.kind, facts.factory, 0, facts.reason)
        memory_budget = budget_of(before, count, facts.dimension)
    plan = plan_index(
        count,
        facts.dimension,
        kind=facts.kind if same else kind or "auto",
        memory_budget=memory_budget,
        rescored=again,
    )
    return replace(plan, reason=facts.reason) if same else plan


def build_cache(plan: IndexPlan, dimension: int, chunks: Numbers, rows: Rows, progress: Progress) -> Built:
    """Build the vector index of some chunks.

    Args:
        plan: Its description.
        dimension: Length of a vector.
        chunks: The numbers of the chunks, rising, (n,).
        rows: Gives the vectors of the chunks by their places among these.
        progress: Called with `train`, `index` and `tune`.

    Returns:
        The index, with the recall measured on vectors that were not in it.
    """
    count = len(chunks)
    index = VectorIndex.empty(plan.factory, plan.kind, dimension)
    held = np.empty(0, dtype=np.int64) if plan.factory == "Flat" else hold_out(count)
    if wanted := index.training_size(count - len(held)):
        progress("train", 0, 1)
        free = np.setdiff1d(np.arange(count), held, assume_unique=True)
        index.train(rows(np.sort(np.random.default_rng(1).choice(free, wanted, replace=False))))
    queries = rows(held)
    exact = ExactNeighbours(queries)
    progress("index", 0, count)
    for start in range(0, count, _BLOCK):
        places = np.arange(start, min(start + _BLOCK, count))
        kept = places[~np.isin(places, held, assume_unique=True)]
        vectors = rows(kept)
        exact.add(vectors, len(index) + np.arange(len(kept)))
        index.add(vectors, chunks[kept])
        progress("index", int(places[-1]) + 1, count)
    if plan.factory == "Flat":
        return Built(index, Recall(1.0, 0, 0, None), 0)
    recall, rescored = Recall(None, 0, 0, None), 0 if index.keeps_vectors else STEPS[1]
    index.effort = index.efforts()[-1]
    if len(held):
        progress("tune", 0, 1)
        order = np.setdiff1d(np.arange(count), held, assume_unique=True)
        recall, rescored = tune_and_measure(
            index, queries, exact.numbers(), lambda places: rows(order[places])
        )
        index.add(queries, chunks[held])
    return Built(index, recall, rescored)


def place_cache(folder: Path, built: Built, count: int) -> dict[str, Any]:
    """Write a vector index into a folder; return what the manifest says of it."""
    facts: dict[str, Any] = {
        "effort": built.vectors.effort,
        "recall": built.recall,
        "rescored": built.rescored,
        "cached": count,
    }
    if not count:
        return facts | {"cache": "", "cache_bytes": 0, "cache_sha256": ""}
    partial = folder / ".vectors.partial"
    built.vectors.write(partial)
    checksum = sha256_of(partial)
    size = partial.stat().st_size
    name = f"vectors-{checksum[:16]}.faiss"
    settle(partial, folder / name)
    return facts | {"cache": name, "cache_bytes": size, "cache_sha256": checksum}


def calibration_of(count: int, rows: Rows) -> Any:
    """Return what scores mean, by random pairs of vectors; None where there are too few."""
    drawn = draw(count)
    return None if drawn is None else calibrate(rows(drawn))
