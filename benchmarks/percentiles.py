"""Measure the percentiles of random and of relevant pairs, on queries with qrels.

    python benchmarks/percentiles.py all-MiniLM-L6-v2 scifact cisi cacm tldr qnli-dev xquad-r/en

`chance` are random pairs of a query and a document, `right` the relevant pairs. The table shows their
percentiles among random pairs of documents, and how many of each `min_score="99%"` keeps.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sentemb.data.retrieval import load_retrieval
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.search.manifest import Calibration, calibrate

_CHANCE = 20_000
_HEADER = "| set | cosine at 50 / 99 % | chance: median | 99th | kept | right: 25th | median | kept |"


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--cache-dir", type=Path)
    arguments = parser.parse_args()
    encoder = load_encoder(arguments.model, cache_dir=arguments.cache_dir)
    print(_HEADER, "|---|---|---:|---:|---:|---:|---:|---:|", sep="\n")
    for name in arguments.sets:
        data = load_retrieval(name)
        documents = normalised(encoder.encode(data.documents))
        queries = normalised(encoder.encode(data.queries))
        unique = documents[np.sort(np.unique(data.documents, return_index=True)[1])]
        calibration = calibrate(len(unique), unique.__getitem__)
        assert calibration is not None

        rng = np.random.default_rng(0)
        asked, found = (rng.integers(len(vectors), size=_CHANCE) for vectors in (queries, documents))
        chance = _percentiles(calibration, queries[asked], documents[found])
        judged = data.judged[data.judged[:, 2] > 0]
        right = _percentiles(calibration, queries[judged[:, 0]], documents[judged[:, 1]])
        cells = [
            name,
            f"{calibration.score(50):.2f} / {calibration.score(99):.2f}",
            f"{np.median(chance):.0f}",
            f"{np.percentile(chance, 99):.1f}",
            f"{100 * (chance >= 99).mean():.1f} %",
            f"{np.percentile(right, 25):.1f}",
            f"{np.median(right):.2f}",
            f"{100 * (right >= 99).mean():.0f} %",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _percentiles(calibration: Calibration, queries: Vectors, documents: Vectors) -> NDArray[np.float64]:
    scores = np.einsum("ij,ij->i", queries, documents)
    return np.array([calibration.percentile(float(score)) for score in scores])


if __name__ == "__main__":
    main()
