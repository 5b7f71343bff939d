r"""Compare search with other libraries on real sentences: recall, size, speed, filters, memory.

    pip install 'sentemb[bench]'
    python benchmarks/search.py --corpus ../shared/data/corpus --model all-MiniLM-L6-v2 --count 200000 \
        --cache vectors.npy --output benchmarks/results/search.json

The corpus is a folder of text files with a sentence per line (.txt or .txt.xz). Its unique lines of 20 to
150 characters are shuffled, and the last ones are queries, which are not in an index. Vectors are encoded
once and stored in `--cache`. Our times are those of `SearchIndex` with given vectors, including documents
and hits. `faiss HNSW` is the raw search of the same graph, so the difference is the cost of our layer.
Filters match a random 100, 10, 1, 0.1 and 0.01 % of the documents. Ten documents are added one by one, each
until another object with the folder open finds it; the slowest counts. On a busy machine, set
OMP_WAIT_POLICY=PASSIVE and read the ratios, because threads that spin while they wait distort the times.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import harness
import numpy as np
import torch
from numpy.typing import NDArray

from sentemb._files import write_json, write_text
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import normalised
from sentemb.evaluation.environment import hardware
from sentemb.search import SearchIndex
from sentemb.search.vectors import exact_neighbors, recall_at_k

K = 10
SELECTIVITIES = (1, 0.1, 0.01, 0.001, 0.0001)
FILTERED_QUERIES = 200
Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
Search = Callable[[Numbers], Sequence[Sequence[int]]]
Row = dict[str, Any]


class Data(NamedTuple):
    """Texts and their vectors; those from `count` on are queries."""

    texts: list[str]
    vectors: Vectors
    count: int

    @property
    def queries(self) -> Numbers:
        """The places of the queries."""
        return np.arange(self.count, len(self.texts))

    def exact(self, queries: Numbers, alive: NDArray[np.bool_]) -> Numbers:
        """The nearest of what is alive, fewer than K where there are fewer."""
        numbers = np.flatnonzero(alive)
        blocks = (numbers[start : start + 16_384] for start in range(0, len(numbers), 16_384))
        pieces = ((self.vectors[some], some) for some in blocks)
        return exact_neighbors(self.vectors[queries], min(K, len(numbers)), pieces)


class Lookup:
    """An encoder that knows the vectors of the texts."""

    name = fingerprint = "lookup"

    def __init__(self, data: Data) -> None:
        self.places = {text: place for place, text in enumerate(data.texts)}
        self.vectors, self.dimension = data.vectors, data.vectors.shape[1]

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Their rows."""
        return self.vectors[[self.places[text] for text in texts]]

    def describe(self) -> dict[str, Any]:
        """Nothing is computed."""
        return {"backend": "lookup"}


def read_corpus(folder: Path, wanted: int) -> list[str]:
    lines: dict[str, None] = {}
    for path in sorted([*folder.glob("*.txt"), *folder.glob("*.txt.xz")]):
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open() as file:
            lines |= dict.fromkeys(line.strip() for line in file if 20 <= len(line.strip()) <= 150)
    texts = list(lines)
    random.Random(0).shuffle(texts)
    if len(texts) < wanted:
        raise SystemExit(f"{folder} has {len(texts):,} different sentences of {wanted:,}: lower --count")
    return texts[:wanted]


def read_data(options: argparse.Namespace) -> Data:
    texts = read_corpus(options.corpus, options.count + options.queries)
    if options.cache and options.cache.exists():
        vectors = np.load(options.cache, allow_pickle=False)[: len(texts)]
    else:
        vectors = load_encoder(options.model).encode(texts, progress=True)
        if options.cache:
            np.save(options.cache, vectors, allow_pickle=False)
    return Data(texts, normalised(np.ascontiguousarray(vectors, dtype=np.float32)), options.count)


def timed(search: Search, data: Data, alive: NDArray[np.bool_] | None = None) -> Row:
    """Seconds of all queries at once, of single ones, and the share of the neighbours that was found."""
    queries = data.queries
    exact = data.exact(queries, np.ones(data.count, np.bool_) if alive is None else alive)
    search(queries[:5])
    batches = []
    for _ in range(3):
        started = time.perf_counter()
        found = search(queries)
        batches.append(time.perf_counter() - started)
    single = []
    for query in queries[:300]:
        started = time.perf_counter()
        search(np.array([query]))
        single.append(1000 * (time.perf_counter() - started))
    return {
        "queries_per_second": len(queries) / min(batches),
        "p50_ms": statistics.median(single),
        "p99_ms": float(np.percentile(single, 99)),
        "recall_at_10": recall_at_k(np.array(found), exact),
    }


def filtered(search: Callable[[Numbers, int], Any], data: Data, alive: NDArray[np.bool_]) -> Row:
    """recall@10 among the first documents, which are a random part, and the fewest hits that should be 10."""
    shares, least = [], K
    for selectivity in SELECTIVITIES:
        most = round(data.count * selectivity)
        matching = alive & (np.arange(data.count) < most)
        queries = data.queries[:FILTERED_QUERIES]
        found, exact = search(queries, most), data.exact(queries, matching)
        least = min(least, *(len(row) + K - exact.shape[1] for row in found))
        pairs = zip(found, exact, strict=True)
        shares.append(sum(len(set(row) & set(true.tolist())) for row, true in pairs) / exact.size)
    return {"filtered_recall": shares, "fewest_hits": least}


def sentemb_rows(kind: Any, data: Data, folder: Path) -> Iterator[tuple[str, Row]]:
    """Ours, raw faiss on the same graph, words, and what three tenths of deletions change."""
    encoder = Lookup(data)
    documents = ((place, data.texts[place], {"n": place}) for place in range(data.count))
    started = time.perf_counter()
    SearchIndex.build(documents, encoder, kind=kind).save(folder / kind)
    row: Row = {"build_s": time.perf_counter() - started}
    before = harness.resident()
    index = SearchIndex.load(folder / kind, encoder, verify=False)
    facts = index.manifest
    row |= {"bytes_per_vector": facts.bytes_per_vector, "factory": facts.factory, "effort": facts.effort}

    def search(queries: Numbers, most: int | None = None, **options: Any) -> list[list[Any]]:
        texts = [data.texts[place] for place in queries]
        where = None if most is None else {"n": {"<": most}}
        vectors = None if options else data.vectors[queries]
        return [
            [hit.id for hit in hits]
            for hits in index.search(texts, K, where=where, vectors=vectors, **options)
        ]

    alive = np.ones(data.count, np.bool_)
    row |= timed(search, data)
    row["resident_mib"] = harness.resident() - before
    yield f"sentemb {kind}", row | filtered(search, data, alive)
    if kind == "hnsw":
        with index.store.snapshot() as snapshot:
            graph = snapshot.state.cache._index
        parameters = faiss.SearchParametersHNSW(efSearch=facts.effort)
        raw = timed(lambda q: graph.search(data.vectors[q], K, params=parameters)[1], data)
        yield "faiss HNSW, same graph", raw
        words = timed(lambda q: [(row + [-1] * K)[:K] for row in search(q, mode="keyword")], data)
        yield "sentemb keyword", words | {"recall_at_10": None}
    row = {"found_ms": found_after(folder / kind, encoder, data)}
    yield f"sentemb {kind}, one document added", row
    if kind != "flat":
        alive[np.random.default_rng(0).choice(data.count, data.count * 3 // 10, replace=False)] = False
        started = time.perf_counter()
        index.delete(np.flatnonzero(~alive).tolist())
        row = {"delete_s": time.perf_counter() - started} | timed(search, data, alive)
        yield f"sentemb {kind}, 30 % deleted", row | filtered(search, data, alive)


def found_after(folder: Path, encoder: Lookup, data: Data) -> list[float]:
    """Milliseconds of ten additions of one document each, until another object that is open has found it."""
    writer, reader = (SearchIndex.load(folder, encoder, verify=False) for _ in range(2))
    times = []
    for place in data.queries[:10].tolist():
        name, vector = f"new {place}", data.vectors[[place]]
        started = time.perf_counter()
        writer.add([(name, data.texts[place])], vectors=vector)
        while reader.search([data.texts[place]], 1, vectors=vector)[0][0].id != name:
            pass
        times.append(1000 * (time.perf_counter() - started))
    writer.delete([f"new {place}" for place in data.queries[:10].tolist()])
    return times


def faiss_rows(data: Data, folder: Path) -> Iterator[tuple[str, Row]]:
    for name, factory, effort in (
        ("faiss flat", "Flat", None),
        ("faiss IVF,PQ4fs,Refine(SQ8)", "IVF447,PQ192x4fs,Refine(SQ8)", 64),
    ):
        index = faiss.index_factory(data.vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        started = time.perf_counter()
        index.train(data.vectors[: data.count : max(1, data.count // 40_000)])
        index.add(data.vectors[: data.count])
        row: Row = {"build_s": time.perf_counter() - started}
        row["bytes_per_vector"] = len(faiss.serialize_index(index)) / data.count
        options = None if effort is None else faiss.SearchParametersIVF(nprobe=effort)
        if "Refine" in factory:
            options = faiss.IndexRefineSearchParameters(k_factor=8, base_index_params=options)
        yield name, row | timed(lambda q, i=index, o=options: i.search(data.vectors[q], K, params=o)[1], data)


def lancedb_rows(data: Data, folder: Path) -> Iterator[tuple[str, Row]]:
    import lancedb
    import pyarrow as pa
    from lancedb.index import IvfHnswSq, IvfPq

    flat = pa.array(data.vectors[: data.count].ravel())
    columns = {
        "id": np.arange(data.count),
        "vector": pa.FixedSizeListArray.from_arrays(flat, data.vectors.shape[1]),
    }
    alive = np.ones(data.count, np.bool_)
    for name, config in (
        ("LanceDB IVF_HNSW_SQ", IvfHnswSq(distance_type="cosine")),
        ("LanceDB IVF_PQ, refined", IvfPq(distance_type="cosine")),
    ):
        before = harness.resident()
        started = time.perf_counter()
        table = lancedb.connect(folder / "lance").create_table("t", pa.table(columns), mode="overwrite")
        table.create_index("vector", config=config)
        row: Row = {"build_s": time.perf_counter() - started}

        def search(queries: Numbers, most: int | None = None, table: Any = table) -> list[list[int]]:
            found = []
            for vector in data.vectors[queries]:
                query = table.search(vector).distance_type("cosine").nprobes(20).refine_factor(4).limit(K)
                query = query if most is None else query.where(f"id < {most}", prefilter=True)
                found.append(query.select(["id", "_distance"]).to_arrow()["id"].to_pylist())
            return found

        row |= timed(search, data)
        yield name, row | {"resident_mib": harness.resident() - before} | filtered(search, data, alive)


def bm25s_rows(data: Data, folder: Path) -> Iterator[tuple[str, Row]]:
    import bm25s

    started = time.perf_counter()
    words = bm25s.BM25()
    words.index(bm25s.tokenize(data.texts[: data.count], show_progress=False), show_progress=False)
    row: Row = {"build_s": time.perf_counter() - started}

    def search(queries: Numbers) -> Any:
        tokens = bm25s.tokenize([data.texts[place] for place in queries], show_progress=False)
        return words.retrieve(tokens, k=K, show_progress=False)[0]

    yield "bm25s", row | timed(search, data) | {"recall_at_10": None}


def table(record: Row) -> str:
    data, versions = record["data"], ", ".join(f"{name} {it}" for name, it in record["versions"].items())
    forms = {"recall_at_10": ".4f", "bytes_per_vector": ",.0f", "queries_per_second": ",.0f"}
    forms |= {"p50_ms": ".2f", "p99_ms": ".2f"}
    titles = "|recall@10|bytes per vector|queries/s in a batch|p50 ms|p99 ms"
    titles += "|filtered recall at 100 / 10 / 1 / 0.1 / 0.01 %|ms until an added document is found"
    rows = []
    for name, row in record["rows"].items():
        effort = f" ({row['factory']}, effort {row['effort']})" if row.get("effort") else ""
        filtered_recall = " / ".join(f"{share:.3f}" for share in row.get("filtered_recall", [])) or "–"
        found = f"{max(row['found_ms']):.0f}" if "found_ms" in row else "–"
        rest = harness.cells(row, {"build_s": ".0f", "resident_mib": ",.0f"})
        rows.append([f"{name}{effort}", *harness.cells(row, forms), filtered_recall, found, *rest])
    return (
        f"# Search, {record['count']:,} × {record['dimension']}, {record['queries']:,} queries, k = {K}, "
        f"{record['threads']} threads\n\n{data}. {record['cpu']}, {versions}. Load of the machine at the "
        f"start {record['load']:.1f}.\n\n"
        + harness.markdown(f"{titles}|build s|resident MiB".split("|"), rows, names=10)
    )


def main() -> None:
    options = harness.options(
        __doc__,
        corpus=Path,  # folder of text files, a sentence a line
        model="all-MiniLM-L6-v2",
        cache=(Path, None),  # of the vectors (.npy)
        count=20_000,
        queries=1_000,
        threads=2,
        output=(Path, None),
    )
    faiss.omp_set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    data = read_data(options)
    record: Row = {
        "data": f"Sentences, encoded by {options.model}",
        "count": data.count,
        "dimension": data.vectors.shape[1],
        "queries": options.queries,
        "threads": options.threads,
        "cpu": hardware()["processor"],
        "load": os.getloadavg()[0],
        "versions": {"faiss": faiss.__version__, "numpy": np.__version__},
        "rows": {},
    }
    kinds = ("ivfpq", "hnsw", "flat")
    systems: list[tuple[str, Callable[[Data, Path], Iterator[tuple[str, Row]]]]] = [
        ("faiss", faiss_rows),
        *((f"sentemb {kind}", lambda d, f, kind=kind: sentemb_rows(kind, d, f)) for kind in kinds),
        ("bm25s", bm25s_rows),
        ("lancedb", lancedb_rows),
    ]
    for name, rows in systems:
        try:
            with tempfile.TemporaryDirectory() as folder:
                for line, row in rows(data, Path(folder)):
                    record["rows"][line] = row
                    print(line, json.dumps(row, default=float), flush=True)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error.name} is not installed; pip install 'sentemb[bench]'")
        if options.output:  # after each system: the next one may take long
            write_json(options.output, json.loads(json.dumps(record, default=float)))
            write_text(options.output.with_suffix(".md"), table(record))
    print(table(record))


if __name__ == "__main__":
    main()
