r"""Encode, index and search 10^4, 10^5, … short texts: time, memory, recall, and killed workers.

    python benchmarks/scale.py --data ../shared/data/corpus --most 10000000 --kills 20 --scratch scratch \
        --output benchmarks/results/scale.json

A text is the first half of one line of the data and the second half of another, drawn with seed 0, so any
number of unique texts has the words and lengths of real ones. Queries are 200 more, drawn with seed 1.
Finished work stays in `--scratch`, and the same command resumes. Memory is that of all processes together,
sampled every 0.2 s: `memory` is their private memory, `mapped` are file pages. `recall` compares the answers
of `SearchIndex.search` with exact search, and `ms` is the time of a single search. With `--plan`, `sentemb
plan` estimates the largest size from 100,000 texts.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa
import pyarrow.ipc

from sentemb._files import read_json, write_json, write_text
from sentemb.data.sources import read_rows
from sentemb.encoding.encoder import normalised
from sentemb.encoding.shards import ShardFolder
from sentemb.search import SearchIndex
from sentemb.search.vectors import exact_neighbors, recall_at_k

_SENTEMB = "if __name__ == '__main__':\n import sys\n from sentemb.cli.main import run\n run(sys.argv[1:])"
_WORDS = (6, 40)  # of a line that is taken
_QUERIES = 200
_PLANNED = 100_000

Result = dict[str, Any]


def main() -> None:
    options = harness.options(
        __doc__,
        data=str,  # file or folder of lines
        least=10_000,
        most=1_000_000,
        model="static-mini",
        workers=2,
        kind="ivfpq",  # of index
        memory_budget=(str, None),
        kills=0,  # workers that are killed while the most are encoded
        plan=False,
        scratch=Path,
        output=(Path, None),
    )
    options.scratch.mkdir(parents=True, exist_ok=True)
    every, queries = options.scratch / "texts.txt", options.scratch / "queries.txt"
    _once(
        options.scratch / "texts.json", lambda: _draw(options.data, {every: options.most, queries: _QUERIES})
    )
    plan = None
    if options.plan:
        plan = _once(options.scratch / "plan.json", lambda: _plan(every, options))
    sizes = itertools.takewhile(
        lambda size: size <= options.most, (options.least * 10**power for power in itertools.count())
    )
    results = [_measure(options.scratch / str(size), size, every, queries, options) for size in sizes]
    if options.output:
        about = {"model": options.model, "workers": options.workers, "plan": plan}
        write_json(options.output, {**about, "results": results})
        write_text(options.output.with_suffix(".md"), _page(results, plan, options))


def _once(path: Path, work: Callable[[], Result]) -> Result:
    """Do what has no result yet."""
    if not path.exists():
        write_json(path, work())
        print(path, path.read_text(), flush=True)
    return dict(read_json(path))


def _draw(data: str, wanted: dict[Path, int]) -> Result:
    lines = [next(iter(row.values.values())) for row in read_rows(data)]
    lines = [line for line in lines if _WORDS[0] <= len(line.split()) <= _WORDS[1]]
    for seed, (path, count) in enumerate(wanted.items()):
        draw = random.Random(seed)
        with path.open("w") as file:
            for _ in range(count):
                first, second = draw.choice(lines).split(), draw.choice(lines).split()
                file.write(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]) + "\n")
    return {str(path.name): count for path, count in wanted.items()}


def _measure(folder: Path, size: int, every: Path, queries: Path, options: argparse.Namespace) -> Result:
    folder.mkdir(exist_ok=True)
    texts, vectors, index = (folder / name for name in ("texts.txt", "vectors", "index"))
    with every.open() as source, texts.open("w") as file:
        file.writelines(itertools.islice(source, size))
    kills = options.kills if size * 10 > options.most else 0
    shared = ["--output", str(vectors), "--model", options.model, "--workers", str(options.workers)]
    encode = _once(
        folder / "encode.json",
        lambda: _watched(["encode", str(texts), *shared, "--dtype", "float16"], kills),
    )
    wanted = ["--memory-budget", options.memory_budget] if options.memory_budget else []
    build = ["index", "build", str(vectors), "-o", str(index), "--kind", options.kind, *wanted]
    indexing = _once(folder / "index.json", lambda: _watched(build, 0))
    search = _once(folder / "search.json", lambda: _search(vectors, index, queries))
    room = {
        name: sum(path.stat().st_size for path in place.iterdir()) / size
        for name, place in (("vectors", vectors), ("index", index))
    }
    return {"texts": size, "encode": encode, "index": indexing, "search": search, "disk": room}


def _plan(every: Path, options: argparse.Namespace) -> Result:
    scratch = options.scratch / "plan-sample.txt"
    with every.open() as source, scratch.open("w") as file:
        file.writelines(itertools.islice(source, _PLANNED))
    output = options.scratch / "planned.json"
    wanted = ["--model", options.model, "--kind", options.kind, "--workers", str(options.workers)]
    budget = ["--memory-budget", options.memory_budget] if options.memory_budget else []
    sample = ["--texts", str(scratch), "--sample", str(_PLANNED)]
    result = ["--output", str(output), "--overwrite"]
    took = _watched(["plan", str(options.most), *sample, *wanted, *budget, *result], 0)
    return {"took": took, "forecast": read_json(output)}


def _search(vectors: Path, index: Path, queries: Path) -> Result:
    """What a user gets for each query, one after the other, compared with all vectors."""
    texts = queries.read_text().splitlines()
    opened = SearchIndex.open(index)
    encoded = normalised(opened.encoder.encode(texts))
    exact = exact_neighbors(encoded, 10, ((normalised(some), numbers) for numbers, some in _vectors(vectors)))
    opened.search(texts[0])
    hits, seconds = [], []
    for text in texts:
        began = time.perf_counter()
        hits.append(opened.search(text, 10))
        seconds.append(time.perf_counter() - began)
    facts = opened.manifest
    return {
        "recall": recall_at_k(np.array([[hit.id for hit in row] for row in hits]), exact),
        "ms": 1000 * statistics.median(seconds),
        "ms_99": 1000 * statistics.quantiles(seconds, n=100)[-1],
        "factory": facts.factory,
        "effort": facts.effort,
        "rescored": facts.rescored,
        "recall_in_manifest": facts.recall.at_10,
        "bytes_per_vector": facts.bytes_per_vector,
    }


def _vectors(folder: Path) -> Iterator[tuple[Any, Any]]:
    start = 0
    for path in ShardFolder(folder).files:
        with pa.memory_map(str(path)) as source:
            column = pa.ipc.open_file(source).read_all()["vector"].combine_chunks()
            some = column.flatten().to_numpy().reshape(len(column), -1).astype(np.float32)
        yield np.arange(start, start + len(some)), some
        start += len(some)


def _watched(arguments: list[str], kills: int) -> Result:
    """Run the command: its time, and the most memory that it and its workers had together."""
    for place in ("--output", "-o"):
        if place in arguments and arguments[0] == "index":
            shutil.rmtree(arguments[arguments.index(place) + 1], ignore_errors=True)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", _SENTEMB, *arguments], stdout=subprocess.DEVNULL)
    most, killed = (0, 0), 0
    draw = random.Random(1)
    following = began + 15
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        family = _family(process.pid)
        own, mapped = (sum(column) for column in zip(*map(_resident, family), strict=True))
        most = max(most, (own, mapped))
        if killed < kills and time.monotonic() > following and (workers := list(filter(_works, family[1:]))):
            os.kill(draw.choice(workers), signal.SIGKILL)
            killed, following = killed + 1, time.monotonic() + draw.uniform(4, 12)
        time.sleep(0.2)
    if ended[1]:
        raise SystemExit(f"{arguments} ended with {ended[1]}")
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": ended[2].ru_utime + ended[2].ru_stime,
        "memory": most[0],
        "mapped": most[1],
        "killed": killed,
    }


def _family(pid: int) -> list[int]:
    """A process and the workers below it."""
    found = [pid]
    for one in found:
        try:
            found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            continue
    return found


def _works(pid: int) -> bool:
    """Whether a process encodes, and is not one that Python has for itself."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _resident(pid: int) -> tuple[int, int]:
    """Memory of a process that is its own, and pages of files; what it shares counts in part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in lines[1:])
        own, mapped = (int(sizes[name].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_File"))
    except (OSError, ValueError, KeyError):
        return 0, 0
    return own, mapped


def _page(results: list[Result], plan: Result | None, options: argparse.Namespace) -> str:
    said = ""
    if plan:
        most, times = results[-1], _seconds_of(plan["forecast"])
        steps = {
            "encoding": (times[0], most["encode"]["seconds"]),
            "building": (sum(times[1:]), most["index"]["seconds"]),
        }
        steps["both"] = tuple(map(sum, zip(*steps.values(), strict=True)))
        told = "; ".join(
            f"{name} {wanted:,.0f} s, and it took {took:,.0f} s ({took / wanted - 1:+.0%})"
            for name, (wanted, took) in steps.items()
        )
        said = f"\nFrom {_PLANNED:,} texts `sentemb plan` said for {most['texts']:,}: {told}.\n"
    return (
        f"# {results[0]['texts']:,} to {results[-1]['texts']:,} short texts, {options.model}\n\n"
        f"`python benchmarks/{shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`, with {options.workers} "
        f"workers on {os.cpu_count()} cores. Memory: own + mapped files.\n\n{_table(results)}{said}"
    )


def _seconds_of(forecast: Result) -> list[float]:
    return [line["forecast"] for line in forecast["lines"] if line["kind"] == "time"]


def _table(results: list[Result]) -> str:
    step = "CPU µs/text|most GiB"
    titles = f"texts|encode, s|{step}|workers killed|index, s|{step}|index|bytes/vector|recall@10|ms a search"
    rows = []
    for one in results:
        encode, index, found = one["encode"], one["index"], one["search"]
        costs = [
            (
                f"{step['seconds']:,.0f}",
                f"{1e6 * step['cpu_seconds'] / one['texts']:,.0f}",
                f"{step['memory'] / 2**30:.2f} + {step['mapped'] / 2**30:.2f}",
            )
            for step in (encode, index)
        ]
        size = (found["factory"], f"{found['bytes_per_vector']:.1f}")
        speed = (f"{found['recall']:.3f}", f"{found['ms']:.1f}")
        rows.append([f"{one['texts']:,}", *costs[0], str(encode["killed"]), *costs[1], *size, *speed])
    return harness.markdown(titles.split("|"), rows, names=0)


if __name__ == "__main__":
    main()
