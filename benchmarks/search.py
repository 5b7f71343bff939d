"""Search beside its peers: build, 1,000 queries, one query, recall@10 and size, in one process.

    python benchmarks/search.py --count 200000 --output benchmarks/results/search.json

Vectors come from a mixture: topics in groups, each a centre with a spread that falls off over the
dimensions, as in sentence embeddings; or from `--vectors`. Queries are drawn from the same mixture and are
in no index. Ours is timed through `SearchIndex` with vectors looked up instead of encoded, documents and
hits included. `faiss HNSW` is the raw search of the very graph that ours built, so its line is what our
layer costs; the IVF-PQ peer is faiss's usual recipe without re-ranking. On a machine with other work, set
OMP_WAIT_POLICY=PASSIVE: threads that spin while they wait measure the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import util

from sentemb._files import write_json, write_text
from sentemb.evaluation.environment import hardware
from sentemb.search import SearchIndex
from sentemb.search.recall import share_found
from sentemb.search.vectors import normalised

K = 10
Vectors = NDArray[np.float32]
Search = Callable[[NDArray[np.int64]], NDArray[np.int64]]


class Lookup:
    """An encoder whose texts are row numbers."""

    name = "lookup"
    fingerprint = "lookup"

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.dimension = vectors.shape[1]

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """The rows that the texts name."""
        return self.vectors[[int(text) for text in texts]]

    def describe(self) -> dict[str, Any]:
        """Nothing is computed."""
        return {"backend": "lookup"}


def mixture(count: int, dimension: int, *, seed: int = 0) -> Vectors:
    """Topics in 50 groups, about 100 texts each, spread over dimensions like 1 / sqrt(rank)."""
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(1 + np.arange(dimension))
    groups = rng.standard_normal((50, dimension)) * scale
    topics = max(1, count // 100)
    centres = groups[rng.integers(50, size=topics)] + rng.standard_normal((topics, dimension)) * scale
    vectors = np.empty((count, dimension), dtype=np.float32)
    for start in range(0, count, 10_000):
        size = min(10_000, count - start)
        spread = rng.standard_normal((size, dimension)) * scale
        vectors[start : start + size] = centres[rng.integers(topics, size=size)] + spread
    return normalised(vectors)


def timed(search: Search, queries: NDArray[np.int64], exact: NDArray[np.int64]) -> dict[str, float]:
    search(queries[:5])
    started = time.perf_counter()
    found = search(queries)
    batch = time.perf_counter() - started
    single = []
    for query in queries[:50]:
        started = time.perf_counter()
        search(np.array([query]))
        single.append(time.perf_counter() - started)
    return {
        "batch_s": batch,
        "one_query_ms": 1000 * statistics.median(single),
        "recall_at_10": share_found(found, exact),
    }


def ours(kind: str, encoder: Lookup, count: int) -> tuple[SearchIndex, dict[str, Any]]:
    started = time.perf_counter()
    index = SearchIndex.build((str(row) for row in range(count)), encoder, kind=kind)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
    facts = index.manifest
    return index, {
        "build_s": seconds,
        "bytes_per_vector": facts.bytes_per_vector,
        "factory": facts.factory,
        "effort": facts.effort,
        "recall_in_manifest": facts.recall.at_10,
    }


def our_search(index: SearchIndex) -> Search:
    def search(queries: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([[hit.id for hit in hits] for hits in index.search([str(q) for q in queries], K)])

    return search


def raw_search(index: Any, vectors: Vectors, parameters: Any = None) -> Search:
    return lambda queries: index.search(vectors[queries], K, params=parameters)[1]


def semantic_search(vectors: Vectors, count: int) -> Search:
    corpus = torch.from_numpy(vectors[:count])

    def search(queries: NDArray[np.int64]) -> NDArray[np.int64]:
        hits = util.semantic_search(torch.from_numpy(vectors[queries]), corpus, top_k=K)
        return np.array([[hit["corpus_id"] for hit in row] for row in hits])

    return search


def measure(vectors: Vectors, count: int) -> dict[str, dict[str, Any]]:
    encoder = Lookup(vectors)
    queries = np.arange(count, len(vectors))
    rows: dict[str, dict[str, Any]] = {}

    flat = faiss.IndexFlatIP(vectors.shape[1])
    started = time.perf_counter()
    flat.add(vectors[:count])
    built = {"build_s": time.perf_counter() - started, "bytes_per_vector": 4.0 * vectors.shape[1]}
    exact = flat.search(vectors[queries], K)[1]
    rows["faiss flat"] = built | timed(raw_search(flat, vectors), queries, exact)
    rows["ST semantic_search"] = {"bytes_per_vector": 4.0 * vectors.shape[1]} | timed(
        semantic_search(vectors, count), queries, exact
    )
    del flat
    for kind in ("flat", "hnsw", "ivfpq"):
        index, facts = ours(kind, encoder, count)
        rows[f"sentemb {kind}"] = facts | timed(our_search(index), queries, exact)
        if kind == "hnsw":
            graph = index._vectors._index
            parameters = faiss.SearchParametersHNSW(efSearch=facts["effort"])
            rows["faiss HNSW, same graph"] = timed(raw_search(graph, vectors, parameters), queries, exact)
        del index
    plain = faiss.index_factory(vectors.shape[1], "IVF1024,PQ48", faiss.METRIC_INNER_PRODUCT)
    started = time.perf_counter()
    plain.train(vectors[:count][:: max(1, count // 50_000)])
    plain.add(vectors[:count])
    built = {
        "build_s": time.perf_counter() - started,
        "bytes_per_vector": len(faiss.serialize_index(plain)) / count,
    }
    probes = faiss.SearchParametersIVF(nprobe=32)
    rows["faiss IVF1024,PQ48, nprobe 32"] = built | timed(raw_search(plain, vectors, probes), queries, exact)
    return rows


def table(record: dict[str, Any]) -> str:
    lines = [
        f"# Search, {record['count']:,} × {record['dimension']}, {record['queries']:,} queries, k = {K}, "
        f"{record['threads']} threads",
        "",
        f"{record['data']}. {record['cpu']}, {', '.join(f'{k} {v}' for k, v in record['versions'].items())}. "
        f"Load of the machine at the start {record['load']:.1f}: read ratios, not seconds.",
        "",
        "| | build s | all queries s | to faiss flat | one query ms | recall@10 | bytes per vector |",
        "|---|---|---|---|---|---|---|",
    ]
    base = record["rows"]["faiss flat"]["batch_s"]
    for name, row in record["rows"].items():
        build = f"{row['build_s']:.1f}" if "build_s" in row else "–"
        size = f"{row['bytes_per_vector']:,.0f}" if "bytes_per_vector" in row else "–"
        effort = f" ({row['factory']}, effort {row['effort']})" if row.get("effort") else ""
        lines.append(
            f"| {name}{effort} | {build} | {row['batch_s']:.3f} | {base / row['batch_s']:.1f}× faster | "
            f"{row['one_query_ms']:.2f} | {row['recall_at_10']:.4f} | {size} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000, help="vectors in the index (default: 20000)")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vectors", type=Path, help="use these vectors (.npy), the last ones as queries")
    parser.add_argument("--output", type=Path, help="write JSON here and a table beside it")
    options = parser.parse_args()
    faiss.omp_set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    if options.vectors:
        vectors = normalised(np.load(options.vectors, allow_pickle=False).astype(np.float32))
        data = f"Vectors of {options.vectors.name}"
    else:
        vectors = mixture(options.count + options.queries, options.dimension)
        data = "Synthetic mixture"
    count = len(vectors) - options.queries
    load = float(Path("/proc/loadavg").read_text().split()[0]) if Path("/proc/loadavg").exists() else 0.0
    record = {
        "data": data,
        "count": count,
        "dimension": vectors.shape[1],
        "queries": options.queries,
        "threads": options.threads,
        "cpu": hardware()["processor"],
        "load": load,
        "versions": {"faiss": faiss.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "rows": measure(vectors, count),
    }
    print(table(record))
    if options.output:
        write_json(options.output, json.loads(json.dumps(record, default=float)))
        write_text(options.output.with_suffix(".md"), table(record))


if __name__ == "__main__":
    main()
