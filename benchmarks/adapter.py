"""Measure queries of a new encoder that a learned map sends to the vectors of an old one.

    python benchmarks/adapter.py scifact bert-mini sg-bert-mini all-MiniLM-L6-v2

For each pair of encoders, the table shows NDCG@10 of the old one, of mapped queries and of the new one; the
recall@10 of mapped queries against the new encoder's own search, as measured by `sentemb index upgrade
--adapter` and on the queries with qrels; the same for the old encoder; and how many of the first ten hits
were added later and mapped themselves, if these are a fifth of all documents.
"""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.search.adapter import learn
from sentemb.search.recall import K, share_found

_SAMPLE = 5_000
_HEADER = "| old → new | map | NDCG@10: old | mapped | new | recall@10: measured | judged | old | added |"


def main() -> None:
    """Print a row for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--split")
    parser.add_argument("--cache-dir", type=Path)
    arguments = parser.parse_args()
    data = load_retrieval(arguments.set, split=arguments.split)
    vectors = {}
    for model in arguments.models:
        encoder = load_encoder(model, cache_dir=arguments.cache_dir)
        vectors[model] = [normalised(encoder.encode(texts)) for texts in (data.documents, data.queries)]
    print(_HEADER, "|---|---|---:|---:|---:|---:|---:|---:|---:|", sep="\n")
    for old, new in permutations(arguments.models, 2):
        print(f"| {old} → {new} | {_row(data, vectors[old], vectors[new])} |", flush=True)


def _row(data: RetrievalSet, old: list[Vectors], new: list[Vectors]) -> str:
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(old[0]), min(_SAMPLE, len(old[0])), replace=False)
    learned = learn(new[0][drawn], old[0][drawn])
    mapped = learned.adapter(new[1])
    before, after, wanted = (
        _best(queries, documents)
        for queries, documents in ((old[1], old[0]), (mapped, old[0]), (new[1], new[0]))
    )
    added = rng.choice(len(old[0]), len(old[0]) // 5, replace=False)
    mixed = old[0].copy()
    mixed[added] = normalised(learned.adapter(new[0][added]))
    cells = [
        learned.method,
        *(f"{100 * _ndcg(found, data):.1f}" for found in (before, after, wanted)),
        f"{learned.recall_new:.3f}",
        f"{share_found(after, wanted):.3f}",
        f"{share_found(before, wanted):.3f}",
        f"{100 * np.isin(_best(mapped, mixed), added).mean():.0f} %",
    ]
    return " | ".join(cells)


def _best(queries: Vectors, documents: Vectors) -> NDArray[np.int64]:
    return np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :K]


def _ndcg(found: NDArray[np.int64], data: RetrievalSet) -> float:
    grades = np.zeros((len(data.queries), len(data.documents)), dtype=np.int64)
    grades[data.judged[:, 0], data.judged[:, 1]] = data.judged[:, 2]
    discounts = 1 / np.log2(np.arange(2, K + 2))
    gained = np.take_along_axis(grades, found, axis=1).clip(0) @ discounts
    return float(np.mean(gained / (np.sort(grades.clip(0), axis=1)[:, ::-1][:, :K] @ discounts)))


if __name__ == "__main__":
    main()
