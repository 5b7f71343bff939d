"""`sentemb plan`: time, disk, memory and commands for a corpus of any size, from two runs on a sample."""

from __future__ import annotations

import bisect
import itertools
import math
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say, show
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.search.plan import IndexPlan

_MOST = 10**12
_SECONDS = 4.0  # of encoding, so that the rate does not drown in what starting a command takes
_PART = 4  # the smaller run has a quarter of the texts
_CODE_POINTS = 65_536  # vectors from which codes are learned at most
_ROUNDS = 10  # of k-means, in which the training vectors are compared with all lists
_COPIES = 2  # of the index in memory while it is written


class _Options(opt.EncoderOptions):
    count: Annotated[str, typer.Argument()]
    """Number of texts, such as 10000000 or 1e9."""
    texts: str | None = None
    """Sample of your texts: file, folder or URI. The default is Python's own documentation."""
    text_column: str | None = None
    """Column with the text of --texts."""
    model: opt.Named = opt.DEFAULT_ENCODER
    sample: int = Field(50_000, ge=1, le=10**7)
    """Maximum number of texts to measure with."""
    workers: int = Field(1, ge=1, le=256)
    """Number of processes for encoding."""
    dtype: Literal["float32", "float16"] = "float16"
    """Number format of the encoded vectors."""
    kind: Literal["auto", "flat", "hnsw", "ivfpq"] = "auto"
    """Kind of the vector index. auto chooses by size."""
    memory_budget: str | None = None
    """Maximum memory of the index on one machine, such as 64GB. The default is 2GiB, or more if one
    machine's index needs more."""
    recall: float | None = Field(None, ge=0, le=1)
    """Required recall@10 of the index, from 0 to 1."""
    output: opt.NewFile = None
    """JSON file for all numbers."""
    overwrite: opt.Overwrite = False


@opt.grouped
def plan(options: _Options) -> None:
    """Estimate time, disk and memory for encoding and indexing a corpus, from small runs on this machine.

    Each command is run on a sample and on a quarter of it. The difference is extrapolated, and the formula is
    printed. Speeds are those of this machine under its current load.
    """
    from sentemb._files import write_json
    from sentemb.encoding.resolve import check_address
    from sentemb.search.plan import parse_bytes

    count, model, texts = _number(options.count), options.model, options.texts
    budget = None if options.memory_budget is None else parse_bytes(options.memory_budget)
    options.check_output(texts, model)
    check_address(model, data_dir=options.data_dir)
    sample = [text for text in itertools.islice(_texts(options), options.sample) if text.strip()]
    if texts is None:
        say(
            "measured on Python's own documentation; the length of texts matters, so pass a sample of yours "
            "with --texts"
        )
    found = estimate(count, sample, options, budget)
    if options.output is not None:
        write_json(options.output, found.to_json())
    _print(found, options)
    ways = ("--model", model, "--workers", options.workers, "--dtype", options.dtype)
    next_command("encode", texts or "DATA", "-o", "vectors", *ways)
    kind = ("--kind", found.plan.kind)
    next_command("index", "build", "vectors", "-o", "index", *kind, *options.flags("memory_budget"))
    next_command("serve", "--index", "index")


class Line(NamedTuple):
    """One figure: `time` in seconds, `disk` or `memory` in bytes."""

    kind: Literal["time", "disk", "memory"]
    name: str
    measured: tuple[float, ...]  # in the two runs, or empty
    formula: str  # of the number of texts n
    forecast: float  # for all texts


@dataclass(frozen=True)
class Estimate:
    """Figures of one of the machines that share the texts."""

    count: int
    machines: int
    sizes: tuple[int, int]  # of the two runs
    dimension: int
    plan: IndexPlan
    recall: float | None  # recall@10 of such an index of the sample, if it was measured
    lines: list[Line]

    def all_of(self, kind: str) -> list[float]:
        """Return the forecasts of one kind."""
        return [line.forecast for line in self.lines if line.kind == kind]

    def to_json(self) -> dict[str, Any]:
        """Return all figures."""
        lines = [line._asdict() for line in self.lines]
        return asdict(self) | {"lines": lines, "seconds": sum(self.all_of("time"))}


def estimate(count: int, texts: Sequence[str], options: _Options, budget: int | None) -> Estimate:
    """Encode and index a sample and a quarter of it, and extrapolate what the additional texts took.

    The difference of the two runs does not contain what a command takes to start. Texts are repeated with a
    number if there are not enough.
    """
    from sentemb.search.plan import IVFPQ_MINIMUM
    from sentemb.search.vectors import encodes_again, held_out_count, training_points

    texts = list(dict.fromkeys(texts))
    if not texts:
        raise InputError("the sample does not contain a text", "pass texts that are not blank")
    encoder = options.load(options.model)
    machines, plan = _plan(
        count, encoder.dimension, options.kind, budget, encodes_again("auto", encoder.describe())
    )
    share = -(-count // machines)
    encoder.encode(texts[:16])
    began = _now()
    encoder.encode(texts[:256])
    rate = min(len(texts), 256) / max(_since(began), 1e-6)  # texts a second
    fewest = {"flat": 400, "hnsw": 1600, "ivfpq": _PART * IVFPQ_MINIMUM}[plan.kind]
    size = int(min(max(options.sample, fewest), max(fewest, _SECONDS * rate)))
    sizes = (size // _PART, size)
    sample = [texts[n % len(texts)] + (f" {n}" if n >= len(texts) else "") for n in range(size)]
    first, last = (_measure(sample[:some], options, plan, encoder.dimension) for some in sizes)

    # Many vectors are checked with fewer queries, so the measurement of recall has a formula of its own.
    each, held_out = _comparison(encoder.dimension), 0 if plan.kind == "flat" else held_out_count(share)
    for run, n in zip((first, last), sizes, strict=True):
        run["index build"] = max(0.0, run["index build"] - each * n * held_out_count(n))
    lines: list[Line] = []

    def extrapolate(kind: Literal["time", "disk"], name: str) -> None:
        # A graph grows by n·log n, all else by n.
        is_graph = plan.kind == "hnsw" and name == "index build"
        small, large, whole = (n * math.log(n + 1) if is_graph else n for n in (*sizes, share))
        slope = (last[name] - first[name]) / (large - small)
        if slope <= 0:  # the machine was busy with something else during the smaller run
            slope = last[name] / large
        start = max(0.0, last[name] - slope * large)
        formula = f"{start:.3g} + {slope:.3g}·n{'·log n' if is_graph else ''}"
        lines.append(Line(kind, name, (first[name], last[name]), formula, start + slope * whole))

    def add(kind: Literal["time", "disk", "memory"], name: str, formula: str, value: float) -> None:
        lines.append(Line(kind, name, (), formula, value))

    extrapolate("time", "encode")
    extrapolate("time", "index build")
    if held_out:
        # A query walks a graph, or looks into all lists.
        grow: Callable[[float], float] = math.log if plan.kind == "hnsw" else float
        tuning = held_out * last["tune"] / max(1, held_out_count(size)) * grow(share) / grow(size)
        formula = f"{each:.3g}·{held_out:,}·n + {tuning:.3g}"
        add("time", "index build, recall", formula, each * held_out * share + tuning)
    if found := re.match(r"IVF(\d+)", plan.factory):
        points, seconds = _ROUNDS * training_points(share, int(found[1])), each * int(found[1])
        add("time", "index build, lists", f"{seconds:.3g}·(n + {points:,})", seconds * (share + points))
        codes = last["train"] * min(share, _CODE_POINTS) / min(size, _CODE_POINTS)
        add("time", "index build, codes", f"measured, up to {_CODE_POINTS:,} texts", codes)
    program, building, index = first["memory"], last["build memory"], plan.bytes
    extrapolate("disk", "vectors")
    extrapolate("disk", "documents of the index")
    add("disk", "vectors of the index", plan.factory, index)
    add("memory", "encode", "measured", program)
    formula = f"{building:.3g} + {_COPIES}·vectors of the index"
    add("memory", "index build", formula, building + _COPIES * index)
    add("memory", "index search", f"{program:.3g} + vectors of the index", program + index)
    recall = last["recall"] if size <= len(texts) else None
    return Estimate(share, machines, sizes, encoder.dimension, plan, recall, lines)


def _plan(count: int, dimension: int, kind: Any, budget: int | None, rescored: bool) -> tuple[int, IndexPlan]:
    """Return the fewest machines whose index fits the budget, and its plan; one machine without a budget."""
    from sentemb.search.plan import IVFPQ_MINIMUM, plan_index

    def plan(machines: int, kind: Any = kind) -> IndexPlan:
        share = -(-count // machines)
        return plan_index(share, dimension, kind=kind, memory_budget=budget, rescored=rescored)

    def fits(machines: int) -> bool:
        with suppress(InputError):
            return bool(plan(machines))
        return False

    if budget is None:
        return 1, plan(1, kind if kind != "auto" or fits(1) else "ivfpq")
    choices = range(1, max(2, count // IVFPQ_MINIMUM + 1))
    place = bisect.bisect_left(choices, True, key=fits)
    machines = choices[min(place, len(choices) - 1)]
    return machines, plan(machines)


def _measure(texts: Sequence[str], options: _Options, plan: IndexPlan, dimension: int) -> dict[str, Any]:
    """Encode and index some texts as the commands would, and return what each step took."""
    from sentemb.encoding.shards import SHARD_SIZE, Row, encode_shards
    from sentemb.encoding.workers import local_pool
    from sentemb.search import SearchIndex
    from sentemb.search.plan import budget_of, estimate_bytes

    stages = dict.fromkeys(("train", "tune"), 0.0)
    stage, workers, began = "read", options.workers, _now()

    def note(following: str, *_: int) -> None:
        nonlocal stage, began
        stages[stage] = stages.get(stage, 0.0) + _since(began)
        stage, began = following, _now()

    with tempfile.TemporaryDirectory(prefix="sentemb-plan-") as scratch:
        vectors, folder = Path(scratch, "vectors"), Path(scratch, "index")
        shards = encode_shards(
            (Row(number, text, {}, f"text {number}") for number, text in enumerate(texts)),
            vectors,
            options.arguments(options.model),
            source="a sample",
            pool=local_pool(workers),
            dtype=options.dtype,
            shard_size=min(SHARD_SIZE, -(-len(texts) // (2 * workers))),
        ).folder
        found = {"encode": _since(began, workers), "vectors": _size(vectors), "memory": _memory()}
        if workers > 1:
            found["memory"] += workers * _memory(resource.RUSAGE_CHILDREN)
        began, budget = _now(), budget_of(plan, len(texts), dimension)
        index = SearchIndex.build(shards, kind=plan.kind, memory_budget=budget, progress=note)
        index.save(folder)
        note("")
        room = _size(folder) - estimate_bytes(index.manifest.factory, len(texts), dimension)
    found |= {"train": stages.pop("train"), "tune": stages.pop("tune"), "index build": sum(stages.values())}
    found["documents of the index"] = max(0, room)
    return found | {"build memory": _memory(), "recall": index.manifest.recall.at_10}


def _comparison(dimension: int) -> float:
    """Return the seconds of comparing a vector with a list of codes."""
    import faiss
    import numpy as np

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
    wall, processor = (now - then for now, then in zip(_now(), began, strict=True))
    return min(wall, processor / min(workers, os.cpu_count() or 1))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _memory(who: int = resource.RUSAGE_SELF) -> int:
    """Return the maximum memory of this process so far, or of the largest of its children that have ended."""
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _number(text: str) -> int:
    """Read a number of texts."""
    number = 0.0
    with suppress(ValueError, OverflowError):
        number = float(text)
    if not (1 <= number <= _MOST and number == int(number)):
        raise InputError(f"{text!r} is not a number of texts from 1 to {_MOST:,}", "write 10000000 or 1e7")
    return int(number)


def _texts(options: _Options) -> Iterable[str]:
    """Return the texts to measure with."""
    if options.texts is None:
        if options.text_column is not None:
            raise InputError("--text-column works only with --texts", "pass both or neither")
        from sentemb.data.bundled_text import stdlib_documents

        return (document.text for document in stdlib_documents())
    from sentemb.data.documents import NO_COLUMN
    from sentemb.search import read_documents
    from sentemb.search.documents import as_documents

    reading = options.values("text_column", "data_dir")
    documents = read_documents(options.texts, id_column=NO_COLUMN, **reading)
    return (document.text for document in as_documents(documents))


def _print(found: Estimate, options: _Options) -> None:
    """Print each figure with its measurements and its formula, and the whole in a few sentences."""
    from sentemb.report.table import Table
    from sentemb.search.plan import format_bytes

    rows = []
    for line in found.lines:
        write = _seconds if line.kind == "time" else format_bytes
        measured = [*map(write, line.measured)] or ["", ""]
        rows.append((f"{line.kind}: {line.name}", *measured, write(line.forecast), line.formula))
    title = f"{found.count:,} texts, {found.plan.factory} of {found.dimension} dimensions"
    counts = [f"{size:,}" for size in (*found.sizes, found.count)]
    show(Table(title, ("step", *counts, "formula for n texts"), tuple(rows)))
    times, disk, memory = (found.all_of(kind) for kind in ("time", "disk", "memory"))
    verdict = (
        f"Verdict: {_seconds(sum(times))} in total, of which {_seconds(times[0])} for encoding with "
        f"{options.workers} {'process' if options.workers == 1 else 'processes'}; "
        f"{format_bytes(sum(disk))} of disk, {format_bytes(max(memory))} of memory; {found.plan.reason}."
    )
    if found.machines > 1:
        verdict += (
            f" This is for one of {found.machines:,} machines with {found.count:,} texts each, because the "
            "whole index exceeds the memory budget."
        )
    if found.recall is None:
        verdict += " Recall was not measured."
    else:
        verdict += f" recall@10 was {found.recall:.3f} with {found.sizes[-1]:,} texts."
        if options.recall is not None and found.recall < options.recall:
            verdict += (
                f" This is below --recall {options.recall:g}: raise --memory-budget, or choose --kind hnsw."
            )
    typer.echo(verdict)


def _seconds(seconds: float) -> str:
    """Write a time for people."""
    for most, size, unit in ((100, 1, "s"), (6000, 60, "min"), (360_000, 3600, "h")):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
