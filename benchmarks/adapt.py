"""What `sentemb adapt` is worth: its encoders on judged queries, which it never sees, beside its verdicts.

    python benchmarks/adapt.py --base all-MiniLM-L6-v2 --sets tldr cisi scifact cacm qnli-dev xquad-r/en \
        --seeds 1 --cache vectors --output benchmarks/results/adapt.json

For each set and seed: adapts the base to the documents, then compares the result with the base on the set's
judged queries, by the encoder alone and fused with BM25. A verdict is right where it says that it cannot
tell or does not help (the base is returned, and nothing changes), and where it says better of what has more
on judged queries; where these are few, chance may have a part in that, as the interval and p say. What
`--output` holds already is not measured again. With `--also-general` the average of the seven STS sets is
measured too, before and after.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentemb._files import read_json, write_json
from sentemb.adaptation import adapt
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.evaluation.comparison import Difference, compare
from sentemb.evaluation.environment import hardware, library_versions
from sentemb.evaluation.retrieval import DenseSearcher, HybridSearcher
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.schema import Record
from sentemb.evaluation.sts import evaluate_sts
from sentemb.evaluation.systems import System, system_of


def measure(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One adaptation."""
    data = load_retrieval(
        name, split="dev" if name == "tldr" else None, data_dir=arguments.data_dir
    )  # of tldr the dev queries
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        options = {name: getattr(arguments, name) for name in ("minutes", "also_general", "teacher")}
        outcome = adapt(data.source, arguments.base, Path(folder, "mine"), seeds=(seed,), **options)
        seconds = time.perf_counter() - began
        raw = {"pooling": "mean"} if arguments.raw else {}
        kept = {"precision": "reduced", "cache_dir": arguments.cache}
        before = load_encoder(arguments.base, **kept, **raw)
        after = load_encoder(outcome.output, **kept) if outcome.helped else before
        found = [
            compare(*both).headline
            for both in zip(_systems(before, data), _systems(after, data), strict=True)
        ]
        sts = [_sts_average(one) for one in (before, after)] if arguments.also_general else None
    return {
        "verdict": outcome.verdict(),
        "right": not outcome.helped or found[0].size > 0,
        "seconds": round(seconds),
        "dense": _values(found[0]),
        "hybrid": _values(found[1]),
        **({} if sts is None else {"sts": dict(zip(("base", "adapted"), sts, strict=True))}),
        "adaptation": outcome.values(),
        "step": outcome.step,
    }


def _systems(encoder: TextEncoder, data: RetrievalSet) -> Iterator[System]:
    """The encoder alone, and fused with BM25."""
    for name, searcher in (("dense", DenseSearcher(encoder)), ("hybrid", HybridSearcher(encoder))):
        record: Record = evaluate_retrieval(searcher, [data])
        yield replace(system_of([record], record.model), name=name)


def _sts_average(encoder: TextEncoder) -> float:
    """Spearman's correlation x 100, the mean of the seven sets."""
    average = evaluate_sts(encoder).average()
    assert average is not None  # all sets are evaluated
    return average


def _values(one: Difference) -> dict[str, Any]:
    return {"base": one.scores[0], "adapted": one.scores[1], "interval": one.interval, "p": one.p}


def line(key: str, one: dict[str, Any]) -> str:
    """A row for people."""
    dense, hybrid = one["dense"], one["hybrid"]
    low, high = dense["interval"]
    general = f", STS {one['sts']['base']:.2f} -> {one['sts']['adapted']:.2f}" if "sts" in one else ""
    return (
        f"{key}: {dense['base']:.1f} -> {dense['adapted']:.1f} ({low:+.1f} to {high:+.1f}, "
        f"p {dense['p']:.3f}), hybrid "
        f"{hybrid['base']:.1f} -> {hybrid['adapted']:.1f}{general}, {'right' if one['right'] else 'WRONG'}: "
        f"{one['verdict']} ({one['seconds']} s)"
    )


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", required=True)
    parser.add_argument("--raw", action="store_true", help="the base is a raw transformer")
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--also-general", action="store_true")
    parser.add_argument("--teacher")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--cache", type=Path, required=True, help="folder of vectors")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    whole = read_json(arguments.output) if arguments.output.exists() else {"runs": {}}
    runs = whole["runs"]
    for name in arguments.sets:
        for seed in arguments.seeds:
            key = f"{Path(arguments.base).name} {name} seed {seed}"
            key += " also general" * arguments.also_general
            key += f" taught by {Path(arguments.teacher).name}" if arguments.teacher else ""
            if key not in runs:
                runs[key] = measure(name, seed, arguments)
                about = {"versions": library_versions(), "hardware": hardware()}
                write_json(arguments.output, {**about, "runs": runs})
            print(line(key, runs[key]), flush=True)


if __name__ == "__main__":
    main()
