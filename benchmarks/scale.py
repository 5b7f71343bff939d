"""Encoding and indexing of 10^4, 10^5, … short texts: seconds, memory, recall, and workers that are killed.

    python benchmarks/scale.py --data corpus/docs.txt --most 1000000 --output benchmarks/results/scale.json

A text is the first half of one line of the data and the second half of another, drawn with seed 0, so that
as many different ones as are wanted have the words and lengths of real ones.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sentemb._files import write_json, write_text
from sentemb.data.sources import read_rows
from sentemb.search.manifest import Manifest

_SENTEMB = "if __name__ == '__main__':\n import sys\n from sentemb.cli.main import run\n run(sys.argv[1:])"
_WORDS = (6, 40)  # of a line that is taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="file of lines")
    parser.add_argument("--most", type=int, default=1_000_000, help="texts at most")
    parser.add_argument("--model", default="static-mini")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", default="auto", help="of index")
    parser.add_argument("--memory-budget", help="of the index")
    parser.add_argument(
        "--kills", type=int, default=0, help="workers that are killed while the most are encoded"
    )
    parser.add_argument(
        "--output", type=Path, help="JSON file of the results, beside which a table is written"
    )
    options = parser.parse_args()
    lines = [next(iter(row.values.values())) for row in read_rows(options.data)]
    lines = [line for line in lines if _WORDS[0] <= len(line.split()) <= _WORDS[1]]
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        size = 10_000
        while size <= options.most:
            kills = options.kills if size * 10 > options.most else 0
            results.append(_measure(Path(scratch), lines, size, kills, options))
            print(json.dumps(results[-1]), flush=True)
            size *= 10
    if options.output:
        write_json(options.output, {"model": options.model, "workers": options.workers, "results": results})
        write_text(options.output.with_suffix(".md"), _table(results))


def _measure(
    scratch: Path, lines: list[str], size: int, kills: int, options: argparse.Namespace
) -> dict[str, Any]:
    texts, vectors, index = (scratch / name for name in ("texts.txt", "vectors", "index"))
    for folder in (vectors, index):
        shutil.rmtree(folder, ignore_errors=True)
    draw = random.Random(0)
    with texts.open("w") as file:
        for _ in range(size):
            first, second = draw.choice(lines).split(), draw.choice(lines).split()
            file.write(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]) + "\n")
    shared = ["--output", str(vectors), "--model", options.model, "--workers", str(options.workers)]
    encoding = _watched(["encode", str(texts), *shared, "--dtype", "float16"], kills)
    wanted = ["--memory-budget", options.memory_budget] if options.memory_budget else []
    indexing = _watched(
        ["index", "build", str(vectors), "-o", str(index), "--kind", options.kind, *wanted], 0
    )
    facts = Manifest.read(index)
    (vectors_file,) = index.glob("vectors-*.faiss")
    return {
        "texts": size,
        "encode": encoding,
        "index": indexing,
        "kind": facts.factory,
        "recall": facts.recall.at_10,
        "bytes_per_vector": vectors_file.stat().st_size / facts.vectors,
        "disk": {
            name: sum(path.stat().st_size for path in folder.iterdir()) / size
            for name, folder in (("vectors", vectors), ("index", index))
        },
    }


def _watched(arguments: list[str], kills: int) -> dict[str, Any]:
    """Run the command; the seconds it took and the most memory that it and its workers had together."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", _SENTEMB, *arguments], stdout=subprocess.DEVNULL)
    peak, killed = 0, 0
    draw = random.Random(1)
    following = began + 15
    while process.poll() is None:
        family = _family(process.pid)
        peak = max(peak, sum(map(_resident, family)))
        if killed < kills and time.monotonic() > following and len(family) > 1:
            os.kill(draw.choice(family[1:]), signal.SIGKILL)
            killed, following = killed + 1, time.monotonic() + draw.uniform(5, 15)
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return {"seconds": time.monotonic() - began, "peak_bytes": peak, "killed": killed}


def _family(pid: int) -> list[int]:
    """A process and the workers below it."""
    found = [pid]
    for one in found:
        try:
            found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            continue
    return found


def _resident(pid: int) -> int:
    """Memory of a process; what it shares counts in part."""
    try:
        (line,) = [
            x for x in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if x.startswith("Pss:")
        ]
    except (OSError, ValueError):
        return 0
    return int(line.split()[1]) * 1024


def _table(results: list[dict[str, Any]]) -> str:
    step = "texts/s|most GiB"
    titles = f"texts|encode, s|{step}|index, s|{step}|index|recall@10|bytes/vector|workers killed".split("|")
    lines = [titles, ["---:"] * len(titles)]
    for one in results:
        steps = [one["encode"], one["index"]]
        times = [
            f"{cell}"
            for step in steps
            for cell in (
                f"{step['seconds']:.0f}",
                f"{one['texts'] / step['seconds']:,.0f}",
                f"{step['peak_bytes'] / 2**30:.2f}",
            )
        ]
        recall = "–" if one["recall"] is None else f"{one['recall']:.3f}"
        size = f"{one['bytes_per_vector']:.0f}"
        lines.append([f"{one['texts']:,}", *times, one["kind"], recall, size, str(one["encode"]["killed"])])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
