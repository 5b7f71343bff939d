r"""Compare an index in a folder with the same index in LanceDB: cost of the move, recall, latency and size.

    pip install 'sentemb[bench]'
    python benchmarks/lancedb_move.py --corpus ../shared/data/corpus --count 100000 \
        --output benchmarks/results/lancedb_move.json

The texts are the unique sentences of 20 to 150 characters of a corpus, shuffled. If there are too few,
random pairs of them are joined. The last ones are queries, which are not in an index. A folder of kind
`flat` is moved to LanceDB and back; ids, metadata and vectors are compared one by one. LanceDB is also
filled directly from the shards of `sentemb encode` and compared in the same way. `--hnsw` also builds an
`hnsw` index of the same texts. The filter matches a random hundredth of the documents. Queries come one at a
time, with their vectors, and read ten documents each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from search import Lookup, read_corpus, resident

from sentemb._files import write_json, write_text
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import normalised
from sentemb.encoding.shards import Row, encode_shards
from sentemb.evaluation.environment import hardware
from sentemb.search import SearchIndex
from sentemb.search.move import fill_lancedb, move
from sentemb.search.recall import ExactNeighbours, recall_at_k

K = 10
SENTENCES = 170_000
Figures = dict[str, Any]


def read_texts(corpus: Path, count: int) -> list[str]:
    sentences = read_corpus(corpus, min(count, SENTENCES))
    generator = random.Random(1)
    texts = dict.fromkeys(sentences)
    while len(texts) < count:
        texts[f"{generator.choice(sentences)} {generator.choice(sentences)}"] = None
    return list(texts)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(index: SearchIndex, lookup: Lookup, texts: list[str], queries: np.ndarray) -> Figures:
    """recall@10 and milliseconds of single queries, all documents and a hundredth of them."""
    count, before = len(index), resident()
    row: Figures = {}
    for name, where, step in (("", None, 1), ("filtered_", {"n": 0}, 100)):
        numbers = np.arange(0, count, step)
        exact = ExactNeighbours(lookup.vectors[queries])
        for start in range(0, len(numbers), 16_384):
            some = numbers[start : start + 16_384]
            exact.add(lookup.vectors[some], some)
        found, times = [], []
        for place in queries.tolist():
            vector = lookup.vectors[[place]]
            started = time.perf_counter()
            hits = index.search(texts[place], K, vectors=vector, where=where)
            times.append(1000 * (time.perf_counter() - started))
            found.append([hit.id for hit in hits])
        row[f"{name}recall_at_10"] = recall_at_k(np.array(found), exact.numbers())
        row[f"{name}p50_ms"] = statistics.median(times)
        row[f"{name}p99_ms"] = float(np.percentile(times, 99))
    started = time.perf_counter()
    for place in queries[:50].tolist():
        index.search(texts[place], K, mode="keyword")
    row["keyword_ms"] = 1000 * (time.perf_counter() - started) / 50
    return row | {"resident_mib": resident() - before}


def same(first: SearchIndex, second: SearchIndex) -> bool:
    """Whether ids, texts, metadata and vectors are equal, in order."""
    documents = first.documents()
    if documents != second.documents():
        return False
    ids = [one.id for one in documents]
    parts = (ids[start : start + 10_000] for start in range(0, len(ids), 10_000))
    return all(np.array_equal(first.vectors(part), second.vectors(part)) for part in parts)


def rows(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Figures]]:
    texts = read_texts(options.corpus, options.count + options.queries)
    vectors = load_encoder(options.model).encode(texts)
    lookup = Lookup(_Data(texts, normalised(np.ascontiguousarray(vectors, dtype=np.float32))))
    queries = np.arange(options.count, len(texts))

    def documents() -> Iterator[tuple[int, str, dict[str, int]]]:
        return ((place, texts[place], {"n": place % 100}) for place in range(options.count))

    def clocked(action: Callable[[], Any]) -> float:
        started = time.perf_counter()
        action()
        return time.perf_counter() - started

    for kind in ("flat", *(("hnsw",) if options.hnsw else ())):
        place = folder / kind
        seconds = clocked(lambda k=kind, p=place: SearchIndex.build(documents(), lookup, kind=k).save(p))
        index = SearchIndex.load(place, lookup, verify=False)
        row = {"made_s": seconds, "bytes_per_document": bytes_of(place) / options.count}
        yield f"folder, {kind}", row | measured(index, lookup, texts, queries)
    address = f"lancedb:{folder / 'lance'}"
    seconds = clocked(lambda: move(str(folder / "flat"), address))
    row = {"made_s": seconds, "bytes_per_document": bytes_of(folder / "lance") / options.count}
    lance = SearchIndex.open(address, lookup)
    yield "LanceDB, moved from flat", row | measured(lance, lookup, texts, queries)
    seconds = clocked(lambda: move(address, str(folder / "back")))
    equal = same(SearchIndex.load(folder / "flat", lookup), SearchIndex.load(folder / "back", lookup))
    yield "folder, moved back", {"made_s": seconds, "same": equal}
    encoded = [Row(place, text, metadata, "") for place, text, metadata in documents()]
    shards = encode_shards(encoded, folder / "shards", {"model": options.model}, source="texts").folder
    address = f"lancedb:{folder / 'filled'}"
    seconds = clocked(lambda: fill_lancedb(shards, address))
    filled = SearchIndex.open(address)
    row = {"made_s": seconds, "bytes_per_document": bytes_of(folder / "filled") / options.count}
    # Not the folder above, whose vectors were brought to length 1 twice.
    row |= {"same": same(SearchIndex.from_shards(shards, kind="flat"), filled)}
    yield "LanceDB, filled from shards", row | measured(filled, lookup, texts, queries)


class _Data:
    """What `Lookup` needs."""

    def __init__(self, texts: list[str], vectors: np.ndarray) -> None:
        self.texts, self.vectors = texts, vectors


def equal(rows: Figures, name: str) -> str:
    return "the same" if rows.get(name, {}).get("same") else "not the same"


def table(record: Figures) -> str:
    columns = {
        "recall_at_10": ("recall@10", ".4f"), "p50_ms": ("p50 ms", ".2f"), "p99_ms": ("p99 ms", ".2f"),
        "filtered_recall_at_10": ("recall@10 of 1 %", ".4f"), "filtered_p50_ms": ("p50 ms of 1 %", ".2f"),
        "keyword_ms": ("keyword ms", ".2f"), "bytes_per_document": ("bytes per document", ",.0f"),
        "made_s": ("made in s", ",.0f"), "resident_mib": ("resident MiB", ",.0f"),
    }  # fmt: skip
    lines = [
        f"# A folder and LanceDB, {record['count']:,} × {record['dimension']}, {record['queries']:,} queries",
        "",
        f"Encoded by {record['model']}; {record['cpu']}, load {record['load']:.1f} at the start. Moved back: "
        f"{equal(record['rows'], 'folder, moved back')} ids, texts, metadata and vectors; "
        f"filled from shards: {equal(record['rows'], 'LanceDB, filled from shards')}.",
        "",
        f"| | {' | '.join(name for name, _ in columns.values())} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for name, row in record["rows"].items():
        cells = [format(row[key], form) if key in row else "–" for key, (_, form) in columns.items()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of text files, a sentence a line")
    parser.add_argument("--model", default="static-mini", help="encoder (default: static-mini)")
    parser.add_argument("--count", type=int, default=100_000, help="documents (default: 100000)")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--hnsw", action="store_true", help="build and measure a graph too")
    parser.add_argument("--folder", type=Path, help="where the indexes are made, for a while")
    parser.add_argument("--output", type=Path, help="write JSON here and a table beside it")
    options = parser.parse_args()
    record: Figures = {
        "model": options.model,
        "count": options.count,
        "dimension": load_encoder(options.model).dimension,
        "queries": options.queries,
        "cpu": hardware()["processor"],
        "load": os.getloadavg()[0],
        "rows": {},
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, row in rows(options, Path(folder)):
            record["rows"][name] = row
            print(name, json.dumps(row), flush=True)
    if options.output:
        write_json(options.output, record)
        write_text(options.output.with_suffix(".md"), table(record))
    print(table(record))


if __name__ == "__main__":
    main()
