"""Hybrid search: an encoder and BM25, fused."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from sentemb._fusion import (
    EVEN,
    FUSED,
    Fit,
    Judged,
    Ranking,
    fit_weight,
    fused_ranks,
    fused_scores,
    lean,
)
from sentemb.data.generated_queries import FEWEST, cut_queries, rank_both
from sentemb.data.retrieval import RELEVANT, RetrievalSet
from sentemb.data.stored_texts import first_places
from sentemb.encoding import TextEncoder
from sentemb.encoding.nearest import Hits, ranked
from sentemb.encoding.shards import ShardFolder
from sentemb.evaluation.retrieval.ranking import id_places
from sentemb.evaluation.retrieval.searchers import DenseSearcher, KeywordSearcher

logger = logging.getLogger(__name__)

Weights = Literal["cut", "judged", "ranks"]
PREFIXES: dict[str, Weights] = {"hybrid:": "cut", "hybrid-fitted:": "judged", "hybrid-rrf:": "ranks"}
"""Prefixes of names, and the source of the weights of both parts; see `HybridSearcher`."""

_FUSION = {
    "cut": "standardized scores, weighted by generated queries",
    "judged": "standardized scores, weighted by the other half of the queries with qrels",
    "ranks": "reciprocal ranks, k = 60",
}


class HybridSearcher:
    """An encoder and BM25, fused: the first 1,000 of each.

    `weights` is the source of the weights of both parts: `cut` fits them on queries generated from the
    documents, `judged` on one half of the set's queries with qrels for the other, and the reverse; `ranks` is
    plain reciprocal rank fusion. `fits` holds the fits of the weights of each set, by its name, of every
    search so far.
    """

    def __init__(
        self, encoder: TextEncoder, weights: Weights = "cut", stored: ShardFolder | None = None
    ) -> None:
        self.dense, self.keyword = DenseSearcher(encoder, stored), KeywordSearcher()
        self.weights = weights
        self.name = f"{next(prefix for prefix, kind in PREFIXES.items() if kind == weights)}{encoder.name}"
        self.fits: dict[str, list[Fit]] = {}

    @property
    def fingerprint(self) -> str:
        """A hash of both parts' fingerprints and of the fusion."""
        whole = (self.dense.fingerprint, self.keyword.fingerprint, _FUSION[self.weights])
        return hashlib.sha256(" ".join(whole).encode()).hexdigest()

    @property
    def dimension(self) -> int | None:
        """Length of the encoder's vectors."""
        return self.dense.dimension

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        found = self.dense.search(data, FUSED, progress=progress), self.keyword.search(data, FUSED)
        parts = [(Ranking(*own), Ranking(*other)) for own, other in zip(*found, strict=True)]
        total, places = len(data.documents), id_places(data)
        if self.weights == "ranks":
            return [ranked(*fused_ranks(*part), places, depth) for part in parts]
        if self.weights == "judged":
            weights = self._fit_on_halves(data, parts)
        else:
            weights = [self._fit_on_documents(data)] * len(parts)
        return [
            ranked(*fused_scores(*part, total, weight), places, depth)
            for part, weight in zip(parts, weights, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        dense, keyword = self.dense.describe(), self.keyword.describe()
        return {
            **dense,
            "fused_with": keyword,
            "fusion": f"{_FUSION[self.weights]}, the first 1000 results of each",
        }

    def _fit_on_documents(self, data: RetrievalSet) -> float:
        """Return the encoder's weight, fitted on queries generated from the documents."""
        cut = cut_queries(_Unique(data.documents))
        if len(cut.queries) < FEWEST:
            return EVEN
        documents = self.dense.vectors(cut.documents, "document")
        queries = self.dense.vectors(cut.queries, "query")
        fit = lean(rank_both(cut, queries, documents, data.language))
        # Sets of queries on nearly the same documents have the same weight, which is logged once.
        chosen = {other.weight for fits in self.fits.values() for other in fits}
        self.fits[data.name] = [fit]
        if fit.weight != EVEN and fit.weight not in chosen:
            logger.warning("%s: %s %s", data.name, self.name, fit.reason("generated queries"))
        return fit.weight

    def _fit_on_halves(self, data: RetrievalSet, parts: Sequence[tuple[Ranking, Ranking]]) -> list[float]:
        """Return the encoder's weight for each query, fitted on the half of the queries that it is not in."""
        half = np.random.default_rng(0).permutation(len(parts)) % 2
        fits = [fit_weight(_judged(data, parts, np.flatnonzero(half != side))) for side in (0, 1)]
        self.fits[data.name] = fits
        return [fits[side].weight for side in half]


class _Unique(Sequence[str]):
    """The unique texts of documents."""

    def __init__(self, texts: Sequence[str]) -> None:
        firsts = first_places(texts)
        self._texts, self._rows = texts, np.flatnonzero(firsts == np.arange(len(firsts)))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._texts[self._rows[place]]


def _judged(data: RetrievalSet, parts: Sequence[tuple[Ranking, Ranking]], queries: Any) -> Iterator[Judged]:
    """Yield some queries with their rankings and grades."""
    ends = np.searchsorted(data.judged[:, 0], np.arange(len(data) + 1))
    for query in queries:
        rows = data.judged[ends[query] : ends[query + 1]]
        # A document that the set does not hold is never found.
        grades = {
            int(number) if number >= 0 else -place: float(grade)
            for place, (_, number, grade) in enumerate(rows, 1)
            if grade >= RELEVANT
        }
        dense, keyword = parts[query]
        yield Judged(dense, keyword, len(data.documents), grades)
