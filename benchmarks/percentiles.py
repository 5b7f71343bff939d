"""Measure the percentiles of random and of relevant pairs, on queries with qrels.

    python benchmarks/percentiles.py all-MiniLM-L6-v2 scifact cisi cacm tldr qnli-dev xquad-r/en

`chance` are random pairs of a query and a document, `right` the relevant pairs. The table shows their
percentiles among random pairs of documents, and how many of each `min_score="99%"` keeps.
"""

from __future__ import annotations

import sys

import harness
import numpy as np
from numpy.typing import NDArray

from sentemb.data.retrieval import load_retrieval
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.search.manifest import Calibration, calibrate

_CHANCE = 20_000
_HEADER = "set|cosine at 50 / 99 %|chance: median|99th|kept|right: 25th|median|kept".split("|")


def row(encoder, name: str) -> list[str]:
    """Measure a set."""
    data = load_retrieval(name)
    documents, queries = (normalised(encoder.encode(some)) for some in (data.documents, data.queries))
    unique = documents[np.sort(np.unique(data.documents, return_index=True)[1])]
    calibration = calibrate(len(unique), unique.__getitem__)
    assert calibration is not None
    rng = np.random.default_rng(0)
    asked, found = (rng.integers(len(vectors), size=_CHANCE) for vectors in (queries, documents))
    chance = _percentiles(calibration, queries[asked], documents[found])
    judged = data.judged[data.judged[:, 2] > 0]
    right = _percentiles(calibration, queries[judged[:, 0]], documents[judged[:, 1]])
    return [
        name,
        f"{calibration.score(50):.2f} / {calibration.score(99):.2f}",
        f"{np.median(chance):.0f}",
        f"{np.percentile(chance, 99):.1f}",
        f"{100 * (chance >= 99).mean():.1f} %",
        f"{np.percentile(right, 25):.1f}",
        f"{np.median(right):.2f}",
        f"{100 * (right >= 99).mean():.0f} %",
    ]


def _percentiles(calibration: Calibration, queries: Vectors, documents: Vectors) -> NDArray[np.float64]:
    scores = np.einsum("ij,ij->i", queries, documents)
    return np.array([calibration.percentile(float(score)) for score in scores])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    encoder = load_encoder(sys.argv[1])
    print(harness.markdown(_HEADER, [row(encoder, name) for name in sys.argv[2:]], names=2), end="")
