"""What encoding and indexing many texts will take, from runs on a few of them on this machine."""

from __future__ import annotations

import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

from sentemb.encoding.resolve import load_encoder
from sentemb.encoding.sharding import SHARD_SIZE, encode_shards
from sentemb.encoding.shards import DType, Row, ShardFolder
from sentemb.encoding.workers import local_pool
from sentemb.errors import InputError
from sentemb.search.codes import CodesPlan
from sentemb.search.laws import COMPARED, COUNT, ONE, POINTS, Line, Term, fit, law_of
from sentemb.search.plan import (
    DEFAULT_MEMORY_BUDGET,
    IVFPQ_MINIMUM,
    IndexPlan,
    Kind,
    budget_of,
    estimate_bytes,
    format_bytes,
    plan_index,
)
from sentemb.search.rescoring import rescores
from sentemb.search.stored import index_shards

FEWEST = 5 * IVFPQ_MINIMUM
"""Texts of which a forecast can be made: a fifth of them fills the smallest index of every kind."""
_SHARES = (0.2, 0.45, 1.0)  # of the sample, each measured on its own
_SHARDS = 4  # for each worker, so that all of them work
_OPENING = "open"
# Of the index while it grows and is written, and of the sample while codes are learnt from it.
_COPIES, _SAMPLES = 2, 4


@dataclass(frozen=True)
class Forecast:
    """What many texts will take, one step after another.

    Attributes:
        count: Number of texts of one machine.
        machines: How many it takes until the vectors of each fit the memory budget.
        sizes: How many were measured, in three runs.
        workers: Processes that encode.
        dimension: Length of a vector.
        plan: The index.
        recall: recall@10 of an index with such codes in the largest run; None where it was not measured.
        encoding: Seconds of `sentemb encode`.
        building: Seconds of each step of `sentemb index build`.
        disk: Bytes of the folder of vectors, of documents in the index and of its vectors.
        memory: Most bytes that `sentemb encode` with its workers and `sentemb index build` hold.
    """

    count: int
    machines: int
    sizes: tuple[int, ...]
    workers: int
    dimension: int
    plan: IndexPlan
    recall: float | None
    encoding: Line
    building: tuple[Line, ...]
    disk: tuple[Line, ...]
    memory: tuple[Line, ...]

    @property
    def seconds(self) -> float:
        """Of encoding and building."""
        return self.encoding.forecast + sum(line.forecast for line in self.building)

    def to_json(self) -> dict[str, Any]:
        """All of it, for a file."""
        return {**asdict(self), "seconds": self.seconds}


@dataclass
class _Run:
    """What one size took."""

    size: int
    recall: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, float] = field(default_factory=dict)


def forecast(
    count: int,
    texts: Sequence[str],
    model: Mapping[str, Any],
    *,
    kind: Kind | Literal["auto"] = "auto",
    memory_budget: int | None = None,
    workers: int = 1,
    dtype: DType = "float16",
    progress: Callable[[str, int, int], None] | None = None,
) -> Forecast:
    """Encode and index texts in three sizes, and follow the law of each step to more of them.

    Args:
        count: Number of texts there will be.
        texts: Some of them, or others as long as they are.
        model: Arguments of `load_encoder`.
        kind: Of the index, as for `plan_index`.
        memory_budget: Bytes that the vectors may take in memory, as for `plan_index`; where nothing fits the
            default, the memory that the usual IVF-PQ index needs.
        workers: Processes that encode.
        dtype: How vectors are stored between encoding and indexing.
        progress: Called with `(stage, done, total)`.

    Returns:
        The forecast.

    Raises:
        InputError: There are too few texts, not fewer than are asked about, or no index fits.
    """
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    if len(texts) < FEWEST:
        raise InputError(
            f"an estimate needs at least {FEWEST:,} different texts; got {len(texts):,}", "pass more texts"
        )
    if count <= len(texts):
        raise InputError(
            f"{count:,} texts are not more than the {len(texts):,} texts to measure with",
            "build the index directly, or lower --sample",
        )
    rescored = rescores("auto", load_encoder(**model).describe())
    runs: list[_Run] = []
    for number, share in enumerate(_SHARES):
        if progress:
            progress("measuring", number, len(_SHARES))
        some = texts[: int(len(texts) * share)]
        with tempfile.TemporaryDirectory(prefix="sentemb-plan-") as scratch:
            run, shards = _encode(Path(scratch), some, model, workers, dtype)
            dimension = shards.dimension
            machines, plan = _planned(count, dimension, kind, memory_budget, rescored)
            _index(run, shards, plan, Path(scratch) / "index")
            if codes := CodesPlan.read(plan.factory):
                run.seconds["lists"] = _compare(shards, codes.lists)
        runs.append(run)
    return _followed(-(-count // machines), machines, runs, dimension, plan, workers)


def _planned(
    count: int, dimension: int, kind: Kind | Literal["auto"], memory_budget: int | None, rescored: bool
) -> tuple[int, IndexPlan]:
    """Return the fewest machines whose share of the vectors fits the budget, and the index of each."""
    machines = 1
    if memory_budget is None and kind == "auto":
        with suppress(InputError):
            return machines, plan_index(count, dimension, rescored=rescored)
        plan = plan_index(count, dimension, kind="ivfpq", rescored=rescored)
        default, size = format_bytes(DEFAULT_MEMORY_BUDGET), format_bytes(plan.bytes)
        reason = (
            f"ivfpq, whose vectors take about {size}, because every index exceeds the default budget of "
            f"{default}"
        )
        return machines, replace(plan, reason=reason)
    while True:
        try:
            plan = plan_index(
                -(-count // machines), dimension, kind=kind, memory_budget=memory_budget, rescored=rescored
            )
        except InputError:
            if memory_budget is None or count // machines < FEWEST:
                raise
            machines += 1
        else:
            return machines, plan


def _encode(
    folder: Path, texts: Sequence[str], model: Mapping[str, Any], workers: int, dtype: DType
) -> tuple[_Run, ShardFolder]:
    run = _Run(len(texts))
    began = time.perf_counter()
    shards = encode_shards(
        (Row(number, text, {}, f"text {number}") for number, text in enumerate(texts)),
        folder / "vectors",
        model,
        source="a sample",
        pool=local_pool(workers),
        dtype=dtype,
        shard_size=min(SHARD_SIZE, -(-len(texts) // (_SHARDS * workers))),
    ).folder
    run.seconds["sentemb encode"] = time.perf_counter() - began
    run.bytes["vectors"] = _size(folder / "vectors")
    own = max(0, _most(resource.RUSAGE_CHILDREN) - _mapped())  # of a worker; all map the same libraries
    run.bytes["encode"] = _most() + (workers * own if workers > 1 else 0)
    return run, shards


def _index(run: _Run, shards: ShardFolder, plan: IndexPlan, folder: Path) -> None:
    """Index what was encoded as the plan has it for all texts."""
    stage, since = _OPENING, time.perf_counter()

    def note(following: str, done: int = 0, total: int = 0) -> None:
        nonlocal stage, since
        now = time.perf_counter()
        ended = following if done else stage  # a report of something done comes after it
        run.seconds[ended] = run.seconds.get(ended, 0.0) + now - since
        stage, since = following, now

    budget = budget_of(plan, run.size, shards.dimension)
    index = index_shards(shards, kind=plan.kind, memory_budget=budget, progress=note)
    note("save")
    index.save(folder)
    note("")
    run.recall = index.manifest.recall.at_10
    run.bytes["index build"] = _most()
    run.bytes["index"] = sum(path.stat().st_size for path in folder.glob("vectors-*.faiss"))
    run.bytes["documents"] = _size(folder) - run.bytes["index"]


def _compare(shards: ShardFolder, lists: int) -> float:
    """Seconds of comparing vectors with the lists that all texts will have, as often as a build does."""
    batch = next(iter(shards.batches())).vectors
    quantizer = faiss.IndexFlatIP(batch.shape[1])
    quantizer.add(np.random.default_rng(0).standard_normal((lists, batch.shape[1]), dtype=np.float32))
    began = time.perf_counter()
    quantizer.search(batch, 1)
    return (time.perf_counter() - began) / len(batch) * COMPARED.of(len(shards))


def _followed(
    count: int, machines: int, runs: Sequence[_Run], dimension: int, plan: IndexPlan, workers: int
) -> Forecast:
    sizes = tuple(run.size for run in runs)

    def seconds(name: str) -> Line:
        return fit(name, "s", sizes, [run.seconds[name] for run in runs], law_of(name, plan.kind), count)

    def room(name: str, *law: Term) -> Line:
        return fit(name, "bytes", sizes, [run.bytes[name] for run in runs], law, count)

    most = runs[0].bytes[
        "encode"
    ]  # a few shards, whatever the size; later runs come after an index was built
    index = Term("index", lambda n: _alike(plan, n, dimension))
    return Forecast(
        count=count,
        machines=machines,
        sizes=sizes,
        workers=workers,
        dimension=dimension,
        plan=plan,
        recall=runs[-1].recall,
        encoding=seconds("sentemb encode"),
        building=tuple(seconds(name) for name in runs[-1].seconds if name != "sentemb encode"),
        disk=(room("vectors", ONE, COUNT), room("documents", ONE, COUNT), room("index", index)),
        memory=(
            Line("encode", "bytes", tuple(run.bytes["encode"] for run in runs), "measured", most),
            _memory(count, runs, dimension, plan),
        ),
    )


def _memory(count: int, runs: Sequence[_Run], dimension: int, plan: IndexPlan) -> Line:
    """Most memory of a build: what the program takes, and what is known of the index and of its training."""

    def known(n: int) -> float:
        sample = 4 * dimension * POINTS.of(n) if plan.kind == "ivfpq" else 0
        return _COPIES * _alike(plan, n, dimension) + _SAMPLES * sample

    measured = tuple(run.bytes["index build"] for run in runs)
    program = max(most - known(run.size) for most, run in zip(measured, runs, strict=True))
    points = f" + {_SAMPLES}·{4 * dimension}·points" if plan.kind == "ivfpq" else ""
    law = f"{program:.3g} + {_COPIES}·index{points}"
    return Line("index build", "bytes", measured, law, program + known(count))


def _alike(plan: IndexPlan, size: int, dimension: int) -> float:
    """Bytes of an index of another size with the codes of a plan."""
    return budget_of(plan, size, dimension) or estimate_bytes(plan.factory, size, dimension)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _most(who: int = resource.RUSAGE_SELF) -> int:
    """The most memory of this process so far, or of the largest of its children that have ended."""
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _mapped() -> int:
    """Bytes of files, such as libraries, that this process maps; 0 where nobody says."""
    status = Path("/proc/self/status")
    found = re.search(r"RssFile:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 1024 * int(found[1]) if found else 0
