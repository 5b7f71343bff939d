"""Compare a batch of 4,096 pairs under a gradient cache with batches of 64: time per pair and peak memory.

    python benchmarks/grad_cache.py --data data --output benchmarks/results/grad_cache.json

The pairs are Quora's. A step of the cached loss takes all pairs as one batch and encodes 64 at a time.
Without a cache, the same pairs are split into batches of 64. Loss and backward pass are timed, interleaved
in one process. Peak memory is that of a separate process that runs one step of each kind with the optimizer,
without its imports. `plain` is the memory of the large batch without a cache and is only measured with
`--plain`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sg_opt_step import load, peak_resident
from torch import nn

from sentemb._files import write_json
from sentemb.data import load_pairs
from sentemb.evaluation.environment import hardware
from sentemb.losses import SimCSELoss, cached

MOST_GIGABYTES, MOST_TIMES = 6.0, 1.6
"""What the cached batch may need: memory, and time per pair beside the small batches."""
Features = list[dict[str, Any]]


def load_texts(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """First and second texts of as many pairs as the large batch has."""
    data = load_pairs("cs224n-quora", split="dev", data_dir=arguments.data)
    if len(data) < arguments.pairs:
        raise SystemExit(f"Quora's dev file has {len(data)} pairs")
    return data.texts[: arguments.pairs], (data.pairs or [])[: arguments.pairs]


def make_loss(variant: str, model: SentenceTransformer, arguments: argparse.Namespace) -> nn.Module:
    """The loss of a variant, in training mode."""
    return cached(SimCSELoss(model, head=None), arguments.batch if variant == "cached" else None).train()


def make_batches(variant: str, model: SentenceTransformer, arguments: argparse.Namespace) -> list[Features]:
    """The pairs as one batch, or as many of the small size."""
    size = arguments.batch if variant == "small" else arguments.pairs
    columns = load_texts(arguments)
    return [
        [model.preprocess(column[start : start + size]) for column in columns]
        for start in range(0, arguments.pairs, size)
    ]


def time_per_pair(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Median milliseconds per pair of both variants, one pass over the pairs of each in turn."""
    model = load(arguments.base, "sdpa")
    variants = ("small", "cached")
    losses = {variant: make_loss(variant, model, arguments) for variant in variants}
    batches = {variant: make_batches(variant, model, arguments) for variant in variants}
    seconds: dict[str, list[tuple[float, float]]] = {variant: [] for variant in variants}
    losses["small"](batches["small"][0]).backward()  # warms up
    for _ in range(arguments.rounds):
        for variant, loss in losses.items():
            start = time.perf_counter(), time.process_time()
            for features in batches[variant]:
                model.zero_grad()
                loss(features).backward()
            seconds[variant].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {
        variant: {
            "pair_ms": 1000 * statistics.median(clock for clock, _ in values) / arguments.pairs,
            # Processor time tells more than the clock where other programs run beside.
            "processor_ms": 1000 * statistics.median(used for _, used in values) / arguments.pairs,
        }
        for variant, values in seconds.items()
    }


def peak_memory(variant: str, arguments: argparse.Namespace) -> float:
    """Gigabytes that a process needs for a step, beyond its imports."""
    command = [sys.executable, __file__, "--data", str(arguments.data), "--base", arguments.base]
    command += ["--pairs", str(arguments.pairs), "--batch", str(arguments.batch)]
    command += ["--threads", str(arguments.threads), "--measure-memory", variant]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(variant: str, arguments: argparse.Namespace) -> None:
    """Make one step and print the growth of the largest resident set over what it was before the model."""
    before = peak_resident()
    model = load(arguments.base, "sdpa")
    loss = make_loss(variant, model, arguments)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loss(make_batches(variant, model, arguments)[0]).backward()
    optimizer.step()
    print((peak_resident() - before) / 1024)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    variants: dict[str, dict[str, float]] = time_per_pair(arguments)
    if arguments.plain:
        variants["plain"] = {}
    for variant, figures in variants.items():
        figures["peak_memory_gb"] = peak_memory(variant, arguments)
    small, cached = variants["small"], variants["cached"]
    return {
        "base": arguments.base,
        "pairs": arguments.pairs,
        "batch_size": arguments.batch,
        "variants": variants,
        "time_per_pair_ratio": cached["pair_ms"] / small["pair_ms"],
        "processor_time_ratio": cached["processor_ms"] / small["processor_ms"],
    }


def print_table(result: dict[str, Any]) -> None:
    """One row per variant, and what was aimed at."""
    columns = {"pair_ms": "ms/pair", "processor_ms": "CPU ms/pair", "peak_memory_gb": "peak GB"}
    print(f"{'variant':<10}" + "".join(f"{title:>13}" for title in columns.values()))
    for variant, figures in result["variants"].items():
        cells = [f"{figures[key]:>13.2f}" if key in figures else f"{'-':>13}" for key in columns]
        print(f"{variant:<10}" + "".join(cells))
    ratio, memory = result["time_per_pair_ratio"], result["variants"]["cached"]["peak_memory_gb"]
    print(
        f"cached: {ratio:.2f} times the time per pair (by processor time "
        f"{result['processor_time_ratio']:.2f}; at most {MOST_TIMES}), {memory:.2f} GB (less than "
        f"{MOST_GIGABYTES:g})"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds cs224n/")
    parser.add_argument("--base", default="minilm", help="minilm, or bert-LxW: random, of that shape")
    parser.add_argument("--pairs", type=int, default=4096, help="size of the large batch")
    parser.add_argument("--batch", type=int, default=64, help="of small batches, and of the cache")
    parser.add_argument("--rounds", type=int, default=3, help="timed passes over the pairs per variant")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--plain", action="store_true", help="also the memory of the large batch uncached")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--measure-memory", metavar="VARIANT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.measure_memory:
        measure_memory(arguments.measure_memory, arguments)
        return
    result = measure(arguments)
    print_table(result)
    if arguments.output:
        machine = {"cpu": hardware()["processor"], "threads": arguments.threads, "torch": torch.__version__}
        write_json(arguments.output, {"machine": machine, "rounds": arguments.rounds, **result})


if __name__ == "__main__":
    main()
