r"""Measure how fast sentemb is on this processor, as ratios to its peers in one run of about 15 minutes.

    pip install 'sentemb[serve,bench]'
    python benchmarks/ratios.py --model all-MiniLM-L6-v2 --data-dir DATA \
        --output benchmarks/results/ratios.json

The output has a row for each kind of processor; another run on the same kind replaces its row. `ratios.md`
next to it is the table of the guides. Nothing else should run on the machine meanwhile.

- STS suite: the sentences of the seven sets, each unique one once, against `SentenceTransformer.encode` for
  every pair's sentences; and what share of the rate of its own matrix products the encoder reaches.
- One text: `encode` of single queries, one after another.
- Serving: `serving.py`, against sentence-transformers behind FastAPI.
- Static encoder: `static_speed.py`, against the processes of model2vec.
- HNSW: `SearchIndex` with documents and hits, against faiss on the same graph, 20,000 vectors.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import harness
import numpy as np
import serving
import static_speed
import torch
from sentence_transformers import SentenceTransformer

from sentemb._files import read_json, write_json, write_text
from sentemb._machine import multiplies_bfloat16, processor_name
from sentemb._threads import one_thread_each
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Precision
from sentemb.encoding.linear import PackedLinear
from sentemb.evaluation.environment import time_in_turns
from sentemb.evaluation.sts import encode_sets, load_sets
from sentemb.evaluation.suites import get_suite
from sentemb.search import SearchIndex

Ratios = dict[str, float]
_QUERIES = 1000
DTYPES = {"float32": torch.float32, "reduced": torch.bfloat16}
# Below 1 is faster in lines that name a time.
LINES = {
    "sts": "STS suite, speed",
    "sts reduced": "STS suite with `--precision reduced`, speed",
    "gemm": "STS suite, share of the rate of matrix products",
    "gemm reduced": "STS suite with `--precision reduced`, share of that rate",
    "one text": "one query in a loop, time",
    "bulk": "serving in bulk, speed",
    "bulk reduced": "serving in bulk with `--precision reduced`, speed",
    "idle p50": "a query of an idle server, median time",
    "loaded p99": "a query under bulk, 99th percentile of the time",
    "static": "static-mini, words known, speed",
    "static first": "static-mini, first call, speed",
    "hnsw batch": "HNSW, many queries at once, time",
    "hnsw one": "HNSW, single queries, median time",
}


def best(rounds: int, **actions: Callable[[], object]) -> dict[str, float]:
    """Return the least seconds of each action, in turns after a round that does not count."""
    taken = time_in_turns(actions, rounds=rounds, warm_up=1)
    return {name: min(seconds) for name, seconds in taken.items()}


def encoding(given: argparse.Namespace) -> Ratios:
    """Compare the encoder with sentence-transformers on the sentences of the STS suite."""
    sets = load_sets(get_suite("sts").sets, data_dir=given.data_dir)
    plain = SentenceTransformer(given.model, device="cpu")
    precisions: list[Precision] = ["float32", "reduced"] if multiplies_bfloat16() else ["float32"]
    ours = {precision: load_encoder(given.model, precision=precision) for precision in precisions}
    actions = {name: partial(encode_sets, encoder) for name, encoder in ours.items()}
    actions["plain"] = partial(_encode_pairs, plain)
    for action in actions.values():
        action(sets[:1])
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for name in (*ours, "plain", *reversed(ours)):  # a machine's speed varies: before and after the peer
        began = time.perf_counter()
        actions[name](sets)
        taken[name].append(time.perf_counter() - began)
    seconds = {name: statistics.mean(some) for name, some in taken.items()}
    unique = list(dict.fromkeys(text for one in sets for text in (*one.first, *one.second)))
    tokens = sum(map(len, plain.tokenizer(unique, truncation=True)["input_ids"]))
    linears = [part for part in plain.modules() if isinstance(part, torch.nn.Linear)]
    products = 2 * tokens * sum(part.weight.numel() for part in linears)
    found: Ratios = {}
    for name, suffix in (("float32", ""), ("reduced", " reduced")):
        if name in seconds:
            found[f"sts{suffix}"] = seconds["plain"] / seconds[name]
            found[f"gemm{suffix}"] = products / seconds[name] / rate(DTYPES[name])
    texts = [text for text in unique if 5 <= len(text.split()) <= 12][:40]
    single = best(
        5,
        ours=lambda: [ours["float32"].encode([text]) for text in texts],
        plain=lambda: [plain.encode([text]) for text in texts],
    )
    return found | {"one text": single["ours"] / single["plain"]}


def _encode_pairs(model: SentenceTransformer, sets: list[ScoredPairs]) -> None:
    for one in sets:
        model.encode(list(one.first))
        model.encode(list(one.second))


def rate(dtype: torch.dtype) -> float:
    """Return operations per second of a large product of a packed layer, one on each core."""
    layer = PackedLinear(torch.nn.Linear(384, 1536), dtype=dtype)
    rows = torch.randn(1024, 384).to(dtype)

    def multiply(_: int) -> None:
        with torch.inference_mode():
            for _ in range(20):
                layer(rows)

    cores = torch.get_num_threads()
    with one_thread_each() as pool:
        seconds = best(5, run=lambda: list(pool.map(multiply, range(cores))))["run"]
    return 2 * 20 * cores * rows.numel() * 1536 / seconds


def serve(given: argparse.Namespace, precision: Precision) -> Ratios:
    """Compare the server with a plain FastAPI application."""
    values = {"port": 18700, "threads": torch.get_num_threads(), "connections": 8, "rounds": 3, "rate": 10.0}
    times = {"seconds": 12.0, "query_seconds": 15.0, "minutes": 0.0, "only_static": False}
    options = argparse.Namespace(
        model=given.model, model_name=None, precision=precision, **values, **times, output=None
    )
    result = serving.measure(options)
    if precision == "reduced":
        return {"bulk reduced": result["ratio_texts_per_second"]}
    ours, plain = result["queries_ours"], result["queries_plain"]
    return {
        "bulk": result["ratio_texts_per_second"],
        "idle p50": ours["idle"]["p50_ms"] / plain["idle"]["p50_ms"],
        "loaded p99": ours["loaded"]["p99_ms"] / plain["loaded"]["p99_ms"],
    }


def static(given: argparse.Namespace, texts: list[str]) -> Ratios:
    """Compare static-mini with model2vec."""
    options = argparse.Namespace(student="static-mini", teacher=given.model, for_teacher=100, rounds=5)
    speeds = static_speed.measure(options, texts)
    peer = max(speed for name, speed in speeds.items() if name.startswith("model2vec"))
    return {"static": speeds["sentemb"] / peer, "static first": speeds["sentemb, first call"] / peer}


def hnsw(texts: list[str]) -> Ratios:
    """Compare the index with faiss on its own graph."""
    documents, queries = texts[_QUERIES:], texts[:_QUERIES]
    with tempfile.TemporaryDirectory() as folder:
        SearchIndex.build(documents, "static-mini", kind="hnsw").save(Path(folder) / "index")
        index = SearchIndex.load(Path(folder) / "index", verify=False)
        vectors = load_encoder("static-mini").encode(queries)
        with index.store.snapshot() as snapshot:
            graph, effort = snapshot.state.cache._index, snapshot.manifest.effort
        parameters = faiss.SearchParametersHNSW(efSearch=effort)
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        batch = best(
            9,
            ours=lambda: index.search(queries, 10, vectors=vectors),
            faiss=lambda: graph.search(units, 10, params=parameters),
        )
        single: dict[str, list[float]] = {"ours": [], "faiss": []}
        for row in range(_QUERIES):
            far = (row + _QUERIES // 2) % _QUERIES  # not the nodes that are in the cache
            own, other = slice(row, row + 1), slice(far, far + 1)
            began = time.perf_counter()
            index.search(queries[own], 10, vectors=vectors[own])
            middle = time.perf_counter()
            graph.search(units[other], 10, params=parameters)
            single["ours"].append(middle - began)
            single["faiss"].append(time.perf_counter() - middle)
    middles = {name: statistics.median(seconds) for name, seconds in single.items()}
    return {
        "hnsw batch": batch["ours"] / batch["faiss"],
        "hnsw one": middles["ours"] / middles["faiss"],
    }


def table(rows: dict[str, Any]) -> str:
    """Return the ratios of all processors."""
    lines = []
    for name, title in LINES.items():
        values = [row["ratios"].get(name) for row in rows.values()]
        lines.append([title, *("–" if value is None else f"{value:.2f}" for value in values)])
    return harness.markdown(["ratio to the peer", *rows], lines)


def main() -> None:
    given = harness.options(
        __doc__,
        model=str,
        data_dir=str,
        processor=processor_name(),  # what the row is called
        steps=[],  # static, hnsw, encoding, serving, reduced: all by default, others stay as they are
        output=(Path, None),
    )
    sets = load_sets(get_suite("sts").sets, data_dir=given.data_dir)
    texts = list(dict.fromkeys(text for one in sets for text in (*one.first, *one.second)))[:21_000]
    steps: dict[str, Callable[[], Ratios]] = {
        "static": lambda: static(given, texts[:20_000]),
        "hnsw": lambda: hnsw(texts),
        "encoding": lambda: encoding(given),
        "serving": lambda: serve(given, "float32"),
    }
    if multiplies_bfloat16():
        steps["reduced"] = lambda: serve(given, "reduced")
    rows = read_json(given.output) if given.output is not None and given.output.exists() else {}
    found: Ratios = dict(rows.get(given.processor, {}).get("ratios", {}))
    for name in given.steps or steps:
        found |= steps[name]()
        print({name: round(value, 3) for name, value in found.items()}, flush=True)
    rows[given.processor] = {**harness.about(), "ratios": found}
    print(table(rows))
    if given.output is not None:
        write_json(given.output, rows)
        write_text(given.output.with_suffix(".md"), table(rows))


if __name__ == "__main__":
    main()
