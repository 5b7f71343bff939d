"""Time, disk and memory of encoding and indexing many texts, from two runs on a few of them."""

from __future__ import annotations

import bisect
import math
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import faiss
import numpy as np

from sentemb.encoding.resolve import load_encoder
from sentemb.encoding.shards import SHARD_SIZE, Row, encode_shards
from sentemb.encoding.workers import local_pool
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.plan import (
    DEFAULT_MEMORY_BUDGET,
    IVFPQ_MINIMUM,
    IndexPlan,
    budget_of,
    estimate_bytes,
    format_bytes,
    plan_index,
)
from sentemb.search.recall import held_out_count
from sentemb.search.rescoring import encodes_again
from sentemb.search.vectors import training_points

_SECONDS = 4.0  # of encoding, so that the rate does not drown in what starting a command takes
_PART = 4  # the smaller run has a quarter of the texts
_FEWEST = {"flat": 400, "hnsw": 1600, "ivfpq": _PART * IVFPQ_MINIMUM}
_CODE_POINTS = 65_536  # vectors from which codes are learned at most
_ROUNDS = 10  # of k-means, in which the training vectors are compared with all lists
_COPIES = 2  # of the index in memory while it is written


class Line(NamedTuple):
    """One figure: `time` in seconds, `disk` or `memory` in bytes."""

    kind: Literal["time", "disk", "memory"]
    name: str
    measured: tuple[float, ...]  # in the two runs, or empty
    formula: str  # of the number of texts n
    forecast: float  # for all texts


@dataclass(frozen=True)
class Forecast:
    """Figures of one of the machines that share the texts."""

    count: int
    machines: int
    machines_by_default: int | None  # with the default budget, if the index of one machine exceeds that
    sizes: tuple[int, int]  # of the two runs
    dimension: int
    plan: IndexPlan
    recall: float | None  # recall@10 of such an index of the sample, if it was measured
    lines: tuple[Line, ...]

    def all_of(self, kind: str) -> list[float]:
        """Return the forecasts of one kind."""
        return [line.forecast for line in self.lines if line.kind == kind]

    def to_json(self) -> dict[str, Any]:
        """Return all figures."""
        lines = [line._asdict() for line in self.lines]
        return {**asdict(self), "lines": lines, "seconds": sum(self.all_of("time"))}


def forecast(
    count: int,
    texts: Sequence[str],
    model: Mapping[str, Any],
    *,
    most: int = 50_000,
    kind: Any = "auto",
    memory_budget: int | None = None,
    workers: int = 1,
    dtype: Any = "float16",
) -> Forecast:
    """Encode and index a sample and a quarter of it, and extrapolate what the additional texts took.

    The difference of the two runs does not contain what a command takes to start. A fast encoder gets so many
    texts that they take seconds; if there are not enough, they are repeated with a number.

    Arguments are the options of `sentemb plan`. `model` are the arguments of `load_encoder`, and `most` is
    the maximum number of texts to measure with.

    Raises:
        InputError: The texts are blank, or no number of machines fits the budget.
    """
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    if not texts:
        raise InputError("the sample does not contain a text", "pass texts that are not blank")
    encoder = load_encoder(**model)
    rescored = encodes_again("auto", encoder.describe())
    machines, by_default, plan = _plan(count, encoder.dimension, kind, memory_budget, rescored)
    share = -(-count // machines)
    size = int(min(max(most, _FEWEST[plan.kind]), max(_FEWEST[plan.kind], _SECONDS * _rate(encoder, texts))))
    sizes = (size // _PART, size)
    sample = [texts[n % len(texts)] + (f" {n}" if n >= len(texts) else "") for n in range(size)]
    options = {"workers": workers, "dtype": dtype}
    runs = first, last = [
        _measure(sample[:some], model, plan, encoder.dimension, **options) for some in sizes
    ]

    def line(kind: Literal["time", "disk"], name: str, index: str = "") -> Line:
        # A graph grows by n·log n, all else by n.
        small, large, whole = (n * math.log(n + 1) if index == "hnsw" else n for n in (*sizes, share))
        slope = (last[name] - first[name]) / (large - small)
        if slope <= 0:  # the machine was busy with something else during the smaller run
            slope = last[name] / large
        start = max(0.0, last[name] - slope * large)
        formula = f"{start:.3g} + {slope:.3g}·n{'·log n' if index == 'hnsw' else ''}"
        return Line(kind, name, (first[name], last[name]), formula, start + slope * whole)

    # Many vectors are checked with fewer queries, so the measurement of recall has a formula of its own.
    each, held_out = _comparison(encoder.dimension), 0 if plan.kind == "flat" else held_out_count(share)
    for run, n in zip(runs, sizes, strict=True):
        run["index build"] = max(0.0, run["index build"] - each * n * held_out_count(n))
    lines = [line("time", "encode"), line("time", "index build", plan.kind)]
    if held_out:
        # Seconds of a query, which walks a graph or looks into all lists.
        grow = math.log if plan.kind == "hnsw" else float
        query, larger = (run["tune"] / max(1, held_out_count(n)) for run, n in zip(runs, sizes, strict=True))
        slope = max(0.0, (larger - query) / (grow(size) - grow(sizes[0])))
        tuning = held_out * max(0.0, larger + slope * (grow(share) - grow(size)))
        formula = f"{each:.3g}·{held_out:,}·n + {tuning:.3g}"
        lines.append(Line("time", "index build, recall", (), formula, each * held_out * share + tuning))
    if found := re.match(r"IVF(\d+)", plan.factory):
        lists = int(found[1])
        points, seconds = _ROUNDS * training_points(share, lists), each * lists
        formula = f"{seconds:.3g}·(n + {points:,})"
        lines.append(Line("time", "index build, lists", (), formula, seconds * (share + points)))
        codes = last["train"] * min(share, _CODE_POINTS) / min(size, _CODE_POINTS)
        lines.append(Line("time", "index build, codes", (), f"measured, up to {_CODE_POINTS:,} texts", codes))
    program, building, index = first["memory"], last["build memory"], plan.bytes
    lines += [line("disk", "vectors"), line("disk", "documents of the index")]
    lines.append(Line("disk", "vectors of the index", (), plan.factory, index))
    lines.append(Line("memory", "encode", (), "measured", program))
    formula = f"{building:.3g} + {_COPIES}·vectors of the index"
    lines.append(Line("memory", "index build", (), formula, building + _COPIES * index))
    formula = f"{program:.3g} + vectors of the index"
    lines.append(Line("memory", "index search", (), formula, program + index))
    recall = last["recall"] if size <= len(texts) else None
    return Forecast(share, machines, by_default, sizes, encoder.dimension, plan, recall, tuple(lines))


def _plan(
    count: int, dimension: int, kind: Any, budget: int | None, rescored: bool
) -> tuple[int, int | None, IndexPlan]:
    """Return the fewest machines, their number by default if one exceeds that budget, and the index."""

    def plan(machines: int, budget: int | None, kind: Any = kind) -> IndexPlan:
        share = -(-count // machines)
        return plan_index(share, dimension, kind=kind, memory_budget=budget, rescored=rescored)

    def fits(machines: int, budget: int | None) -> bool:
        with suppress(InputError):
            return bool(plan(machines, budget))
        return False

    def fewest(budget: int) -> int:
        choices = range(1, max(2, count // IVFPQ_MINIMUM + 1))
        place = bisect.bisect_left(choices, True, key=lambda machines: fits(machines, budget))
        return choices[min(place, len(choices) - 1)]

    if budget is not None:
        return (machines := fewest(budget)), None, plan(machines, budget)
    if kind != "auto" or fits(1, None):
        return 1, None, plan(1, None)
    found = plan(1, None, "ivfpq")
    size, default = format_bytes(found.bytes), format_bytes(DEFAULT_MEMORY_BUDGET)
    reason = f"ivfpq, whose vectors take about {size}, because every index exceeds the default of {default}"
    return 1, fewest(DEFAULT_MEMORY_BUDGET), replace(found, reason=reason)


def _rate(encoder: Any, texts: Sequence[str]) -> float:
    """Return about how many texts are encoded in a second."""
    size = 16
    while True:
        began = _now()
        encoder.encode(texts[:size])
        seconds = _since(began)
        if seconds > 0.2 or size >= len(texts):
            return min(size, len(texts)) / max(seconds, 1e-6)
        size *= 4


def _measure(
    texts: Sequence[str],
    model: Mapping[str, Any],
    plan: IndexPlan,
    dimension: int,
    *,
    workers: int,
    dtype: Any,
) -> dict[str, Any]:
    """Encode and index some texts as the commands would, and return what each step took."""
    stages: dict[str, float] = {}
    stage, began = "read", _now()

    def note(following: str, *_: int) -> None:
        nonlocal stage, began
        stages[stage] = stages.get(stage, 0.0) + _since(began)
        stage, began = following, _now()

    with tempfile.TemporaryDirectory(prefix="sentemb-plan-") as scratch:
        folder = Path(scratch)
        shards = encode_shards(
            (Row(number, text, {}, f"text {number}") for number, text in enumerate(texts)),
            folder / "vectors",
            model,
            source="a sample",
            pool=local_pool(workers),
            dtype=dtype,
            shard_size=min(SHARD_SIZE, -(-len(texts) // (2 * workers))),
        ).folder
        found = {"encode": _since(began, workers), "vectors": _size(folder / "vectors")}
        found["memory"] = _memory() + (workers * _memory(resource.RUSAGE_CHILDREN) if workers > 1 else 0)
        budget = budget_of(plan, len(texts), dimension)
        began = _now()
        index = SearchIndex.from_shards(shards, kind=plan.kind, memory_budget=budget, progress=note)
        index.save(folder / "index")
        note("")
        room = _size(folder / "index") - estimate_bytes(index.manifest.factory, len(texts), dimension)
    found |= {stage: stages.pop(stage, 0.0) for stage in ("train", "tune")}
    found |= {"index build": sum(stages.values()), "documents of the index": max(0, room)}
    return found | {"build memory": _memory(), "recall": index.manifest.recall.at_10}


def _comparison(dimension: int) -> float:
    """Return the seconds of comparing a vector with a list of codes."""
    vectors = np.random.default_rng(0).standard_normal((4096, dimension), dtype=np.float32)
    quantizer = faiss.IndexFlatIP(dimension)
    quantizer.add(vectors)
    began = _now()
    quantizer.search(vectors, 1)
    return _since(began) / len(vectors) ** 2


def _now() -> tuple[float, float]:
    """Return the wall time, and the processor time of this process and of its children that have ended."""
    children = os.times()
    return time.perf_counter(), time.process_time() + children.children_user + children.children_system


def _since(began: tuple[float, float], workers: int = 1) -> float:
    """Return the seconds since then, without those in which the processor did other work."""
    (wall, processor), (wall_then, processor_then) = _now(), began
    return min(wall - wall_then, (processor - processor_then) / min(workers, os.cpu_count() or 1))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _memory(who: int = resource.RUSAGE_SELF) -> int:
    """Return the maximum memory of this process so far, or of the largest of its children that have ended."""
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
