r"""Measure the cost of a transform at the end of an encoder.

    python benchmarks/flow.py --data-dir DATA --base bert-mini --pooling mean \
        --output benchmarks/results/flow.json

The systems encode the same unique sentences of STS-B test on the CPU path of `sentemb.encoding`. They are
interleaved in rotating order, so other load on the machine affects all of them. A round's ratio is a
system's time divided by that of the encoder alone. The median round counts, in wall time and in CPU time,
which is steadier on a busy machine. The flow has the default shape and is fitted to some of the sentences;
its weights do not affect its cost.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from sentemb._files import write_json
from sentemb.data.sts import load_scored_pairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.modules import load
from sentemb.transforms import add_flow, add_whitening

ALONE = "encoder alone"


def systems(model: SentenceTransformer, sentences: list[str]) -> dict[str, TextEncoder]:
    some = sentences[: max(512, 2 * (model.get_embedding_dimension() or 0))]
    models = {ALONE: model, "with flow": add_flow(model, some), "with whitening": add_whitening(model, some)}
    return {name: load_encoder(one) for name, one in models.items()}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    load_at_start = os.getloadavg()[0]
    model = load(arguments.base, pooling=arguments.pooling, device="cpu")
    pairs = load_scored_pairs("stsb", split="test", data_dir=arguments.data_dir)
    sentences = list(dict.fromkeys([*pairs.first, *pairs.second]))[: arguments.sentences]
    encoders = systems(model, sentences)
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    processor: dict[str, list[float]] = {name: [] for name in encoders}
    names = list(encoders)
    for turn in range(arguments.rounds + 1):  # the first, which times the linear kernels too, is left out
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter(), time.process_time()
            encoders[name].encode(sentences)
            if turn:
                seconds[name].append(time.perf_counter() - start[0])
                processor[name].append(time.process_time() - start[1])
    return {
        "machine": hardware(),
        "versions": library_versions(),
        "threads": torch.get_num_threads(),
        "load_at_start": load_at_start,
        "base": arguments.base,
        "pooling": arguments.pooling,
        "sentences": len(sentences),
        "systems": {
            name: {
                "seconds": seconds[name],
                "ratio": ratio(seconds, name),
                "processor_seconds": processor[name],
                "processor_ratio": ratio(processor, name),
            }
            for name in encoders
        },
    }


def ratio(seconds: dict[str, list[float]], name: str) -> float:
    return statistics.median(own / alone for own, alone in zip(seconds[name], seconds[ALONE], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="bert-mini", help="folder, hub id or bundled name")
    parser.add_argument("--pooling", help="for a raw transformer")
    parser.add_argument("--data-dir", help="where the sets are; by default SENTEMB_DATA")
    parser.add_argument("--sentences", type=int, help="only the first so many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments)
    for name, system in result["systems"].items():
        print(
            f"{name}: {min(system['seconds']):.2f} s, ratio {system['ratio']:.3f}, "
            f"of processor time {system['processor_ratio']:.3f}"
        )
    if arguments.output is not None:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
