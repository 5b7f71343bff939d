"""Searchers: an encoder, BM25, or a run that another system left."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sentemb._files import sha256_of
from sentemb.data.bm25 import stored_bm25_scores
from sentemb.data.keywords import RULES
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.stored_texts import Places, first_places
from sentemb.encoding import Role, TextEncoder, for_role, similarity_of
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.encoding.nearest import Hits
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.retrieval.ranking import SUFFIX, best, id_places, nearest, read_run, run_file

BM25 = "bm25"
_DOCUMENTS = 16_384  # that are compared with the queries at a time


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
            for start in range(0, count, _DOCUMENTS):
                texts = data.documents[start : start + _DOCUMENTS]
                rows = _new_rows(firsts, start, len(texts))
                if len(rows):
                    some = [texts[row] for row in rows]
                    yield start + rows, self.vectors(some, "document", progress=progress)
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
