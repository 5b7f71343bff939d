"""Searchers: an encoder, BM25, both fused, or a run that another system left."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from sentemb._files import sha256_of
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
from sentemb.data.bm25 import stored_bm25_scores
from sentemb.data.generated_queries import FEWEST, cut_queries, rank_both
from sentemb.data.retrieval import RELEVANT, RetrievalSet
from sentemb.data.stored_texts import Places, first_places
from sentemb.data.words import RULES
from sentemb.encoding import Role, TextEncoder, for_role, similarity_of
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.encoding.nearest import Hits, ranked
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.ranking import SUFFIX, best, id_places, nearest, read_run, run_file

logger = logging.getLogger(__name__)

BM25 = "bm25"
_DOCUMENTS = 16_384  # that are compared with the queries at a time
Weights = Literal["cut", "judged", "ranks"]
PREFIXES: dict[str, Weights] = {"hybrid:": "cut", "hybrid-fitted:": "judged", "hybrid-rrf:": "ranks"}
"""Prefixes of names, and the source of the weights of both parts; see `HybridSearcher`."""

_FUSION = {
    "cut": "standardized scores, weighted by generated queries",
    "judged": "standardized scores, weighted by the other half of the queries with qrels",
    "ranks": "reciprocal ranks, k = 60",
}


class Searcher(Protocol):
    """Anything that ranks the documents of a set for its queries."""

    @property
    def name(self) -> str:
        """Name in tables and records."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever what is found may change."""
        ...

    @property
    def dimension(self) -> int | None:
        """Length of its vectors; None where it has none."""
        ...

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> Sequence[Hits]:
        """Return the best documents for each query, up to `depth`."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return how it searches; JSON values only, for records."""
        ...


class DenseSearcher:
    """Exact search by an encoder's vectors; each unique text is encoded once, with the prompt of its role.

    The documents' vectors may be `stored`; those of another encoder or prompt are refused.
    """

    def __init__(self, encoder: TextEncoder, stored: ShardFolder | None = None) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self._stored = stored
        self._similarity = similarity_of(encoder)
        if stored is not None:
            stored.check_encoder(encoder)

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.encoder.dimension

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        firsts = first_places(data.documents)
        blocks = self._blocks(data, firsts, progress=progress)
        queries = self.vectors(data.queries, "query", progress=progress)
        return nearest(queries, blocks, firsts, id_places(data), depth)

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        stored = {} if self._stored is None else {"stored": self._stored.settings.dtype}
        return {**self.encoder.describe(), "similarity": self._similarity, **stored}

    def vectors(self, texts: Sequence[str], role: Role, *, progress: bool = False) -> Vectors:
        """Return the vectors whose inner products rank; shape (texts, dimension)."""
        return self._normalize(for_role(self.encoder, role).encode(texts, progress=progress))

    def _normalize(self, vectors: Vectors) -> Vectors:
        return vectors if self._similarity == "dot" else normalised(vectors)

    def _blocks(
        self, data: RetrievalSet, firsts: Places, *, progress: bool
    ) -> Iterator[tuple[Places, Vectors]]:
        """Yield numbers and vectors of documents, those of equal texts once."""
        count = len(firsts)
        if self._stored is None:
            for rows, some in new_texts(data.documents, firsts, _DOCUMENTS):
                yield rows, self.vectors(some, "document", progress=progress)
            return
        start, where = 0, self._stored.path
        hint = f"encode the documents of {data.name} in their original order, titles included"
        for batch in self._stored.batches(_DOCUMENTS):
            texts = data.documents[start : start + len(batch.texts)]
            for number, (ours, other) in enumerate(zip_longest(texts, batch.texts), start):
                if ours != other:
                    raise InputError(
                        f"{where}, row {number + 1}: the text differs from that of {data.name}", hint
                    )
            rows = _new_rows(firsts, start, len(texts))
            if len(rows):
                yield start + rows, self._normalize(batch.vectors[rows])
            start += len(texts)
        if start < count:
            raise InputError(
                f"{where} contains {start:,} vectors, but {data.name} has {count:,} documents", hint
            )


def new_texts(texts: Sequence[str], firsts: Places, size: int) -> Iterator[tuple[Places, list[str]]]:
    """Yield places and texts, `size` texts at a time, those of equal texts once."""
    for start in range(0, len(firsts), size):
        some = texts[start : start + size]
        rows = _new_rows(firsts, start, len(some))
        if len(rows):
            yield start + rows, [some[row] for row in rows]


def _new_rows(firsts: Places, start: int, count: int) -> Places:
    """Return which of some documents have a text that none before has, counted from the first of them."""
    return np.flatnonzero(firsts[start : start + count] == np.arange(start, start + count))


class KeywordSearcher:
    """BM25 of SQLite's full-text index (k1 = 1.2, b = 0.75) with the terms of the set's language."""

    name = BM25
    dimension = None

    @property
    def fingerprint(self) -> str:
        """The version of SQLite and that of the rules by which texts become terms."""
        return f"sqlite-fts5-{sqlite3.sqlite_version}-rules-{RULES}"

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        scores = stored_bm25_scores(data.documents, data.queries, data.language)
        places = id_places(data)
        return [best(own.astype(np.float32), places, depth, above=0.0) for own in scores]

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {"encoder": "BM25", "backend": "SQLite FTS5", "versions": {"sqlite": sqlite3.sqlite_version}}


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


class SavedRuns:
    """Runs in TREC's format: one file, or a folder with `SET.trec` of each set."""

    dimension = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.resolve().name if path.is_dir() else path.stem

    @property
    def fingerprint(self) -> str:
        """A hash of the files."""
        files = sorted(self.path.glob(f"*{SUFFIX}")) if self.path.is_dir() else [self.path]
        return hashlib.sha256(" ".join(map(sha256_of, files)).encode()).hexdigest()

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`; as many as the file has."""
        return read_run(run_file(self.path, data.name) if self.path.is_dir() else self.path, data)

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {"encoder": "saved run", "backend": self.path.name}
