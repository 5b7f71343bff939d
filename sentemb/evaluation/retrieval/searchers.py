"""What finds documents: an encoder, BM25, or a run that another system left."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sentemb._files import sha256_of
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_terms
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import TextEncoder, for_role, similarity_of
from sentemb.encoding.encoder import Vectors, normalised, unique_texts
from sentemb.evaluation.retrieval.ranking import Hits, best, id_places, nearest, rows_of_block
from sentemb.evaluation.retrieval.trec import SUFFIX, read_run, run_file

BM25 = "bm25"


class Searcher(Protocol):
    """Anything that ranks the documents of a set for its queries."""

    @property
    def name(self) -> str:
        """What tables and records call it."""
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
        """The best `depth` documents, or all that are found, for each query."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say how documents are found; JSON values only, for records."""
        ...


class DenseSearcher:
    """Exact search by an encoder's vectors; each unique text is encoded once, with the prompt of its role."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.name = encoder.name

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
        texts, rows = unique_texts(data.documents)
        documents = self.vectors(texts, "document", progress=progress)
        queries = self.vectors(data.queries, "query", progress=progress)
        return list(nearest(queries, documents, rows, id_places(data), depth))

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {**self.encoder.describe(), "similarity": similarity_of(self.encoder)}

    def vectors(self, texts: Sequence[str], role: Any, *, progress: bool = False) -> Vectors:
        """The vectors whose inner products rank; shape (texts, dimension)."""
        vectors = for_role(self.encoder, role).encode(texts, progress=progress)
        return vectors if similarity_of(self.encoder) == "dot" else normalised(vectors)


class KeywordSearcher:
    """BM25 of SQLite's full-text index (k1 = 1.2, b = 0.75) with the terms of the set's language."""

    name = BM25
    dimension = None

    @property
    def fingerprint(self) -> str:
        """The version of SQLite, which cuts texts to terms."""
        return f"sqlite-fts5-{sqlite3.sqlite_version}"

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        counts, terms = count_terms(data.documents, data.language)
        queries, _ = count_terms(data.queries, data.language, terms)
        scores = bm25_scores(bm25_weights(counts), queries, rows_of_block(len(data.documents)))
        places = id_places(data)
        return [best(own.astype(np.float32), places, depth, above=0.0) for some in scores for own in some]

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {"encoder": "BM25", "backend": "SQLite FTS5", "versions": {"sqlite": sqlite3.sqlite_version}}


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
