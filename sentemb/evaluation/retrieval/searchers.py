"""What finds documents: an encoder, BM25, both together, or a run that another system left."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sentemb._files import sha256_of
from sentemb._fusion import FUSED, Ranking, fused_scores
from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import TextEncoder, for_role, similarity_of
from sentemb.encoding.encoder import Vectors, unique_texts
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.bm25 import bm25_scores, bm25_weights, count_terms
from sentemb.evaluation.retrieval.ranking import Hits, best, id_places, nearest, ranked, rows_of_block
from sentemb.evaluation.retrieval.trec import SUFFIX, read_run, run_file

BM25 = "bm25"
HYBRID = "hybrid:"
RUN_SUFFIXES = (SUFFIX, ".run")


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
        documents = self._encode(texts, "document", progress=progress)
        queries = self._encode(data.queries, "query", progress=progress)
        return list(nearest(queries, documents, rows, id_places(data), depth))

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {**self.encoder.describe(), "similarity": similarity_of(self.encoder)}

    def _encode(self, texts: Sequence[str], role: Any, *, progress: bool) -> Vectors:
        vectors = for_role(self.encoder, role).encode(texts, progress=progress)
        if similarity_of(self.encoder) == "dot":
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


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


class HybridSearcher:
    """Reciprocal rank fusion of an encoder and BM25, the first 1,000 of each."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.parts: tuple[Searcher, ...] = (DenseSearcher(encoder), KeywordSearcher())
        self.name = f"{HYBRID}{encoder.name}"

    @property
    def fingerprint(self) -> str:
        """A hash of both parts'."""
        return hashlib.sha256(" ".join(part.fingerprint for part in self.parts).encode()).hexdigest()

    @property
    def dimension(self) -> int | None:
        """Length of the encoder's vectors."""
        return self.parts[0].dimension

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        dense, keyword = (part.search(data, FUSED, progress=progress) for part in self.parts)
        places = id_places(data)
        return [
            ranked(*fused_scores(Ranking(*own), Ranking(*other)), places, depth)
            for own, other in zip(dense, keyword, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        dense, keyword = (part.describe() for part in self.parts)
        return {**dense, "fused_with": keyword, "fusion": "reciprocal ranks, k = 60, the first 1000 of each"}


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


def searcher_of(name: str, load: Callable[[str], TextEncoder]) -> Searcher:
    """What a name on the command line means.

    Args:
        name: `bm25`; `hybrid:MODEL`; a run in TREC's format (`.trec`, `.run`), a folder of runs; or a model.
        load: Loads a model.

    Returns:
        The searcher.

    Raises:
        InputError: There is no such file, or the model cannot be loaded.
    """
    if name == BM25:
        return KeywordSearcher()
    if name.startswith(HYBRID):
        return HybridSearcher(load(name.removeprefix(HYBRID)))
    return SavedRuns(_checked(Path(name))) if is_run(name) else DenseSearcher(load(name))


def model_of(name: str) -> str | None:
    """The model that a system needs; None of BM25 and of saved runs."""
    return None if name == BM25 or is_run(name) else name.removeprefix(HYBRID)


def is_run(name: str) -> bool:
    """Whether a name is that of saved runs."""
    path = Path(name)
    return path.suffix in RUN_SUFFIXES or (path.is_dir() and any(path.glob(f"*{SUFFIX}")))


def _checked(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"no such file: {path}", "name a run in TREC's format")
    return path
