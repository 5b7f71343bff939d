"""One state of an index, and the way to the next: what a search sees is the old index or the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.adapter import Adapter
from sentemb.search.folder import open_folder
from sentemb.search.keywords import Keywords, QueryTerms
from sentemb.search.living import LivingStore
from sentemb.search.manifest import NAME, Manifest
from sentemb.search.prepared import Span
from sentemb.search.rescoring import candidates, rescored
from sentemb.search.segments import Segments
from sentemb.search.store import DocumentStore, StoredDocument
from sentemb.search.vectors import Numbers, VectorIndex, comparable
from sentemb.search.where import Where

Encode = Callable[[Sequence[str]], Vectors]
"""Gives texts of documents their vectors, (n, dim)."""

# Filters whose matches are kept, a byte for each vector and document.
_FILTERS = 16


class Part(NamedTuple):
    """What a filter leaves of an index."""

    segments: Segments
    documents: int
    among: NDArray[np.bool_] | None = None  # which documents, by their numbers; None for all
    reason: str | None = None  # why no document can meet the filter


class Ranked(NamedTuple):
    """A document by its number, its score, and the number of the text that has it, where vectors say it."""

    score: float
    document: int
    text: int | None = None


class Fetched(NamedTuple):
    """Documents by number, and the passages that have their scores, where those are not the whole texts."""

    documents: dict[int, StoredDocument]
    passages: dict[tuple[int, int | None], Span]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An index at one moment.

    Args:
        manifest: Its facts, with the counts of this moment.
        segments: Its vectors.
        store: Its documents.
        version: How often a living index was changed.
        place: Up to where the tombstones are known.
        folder: The folder it is read from; None for an index that was never saved.
        stamp: When the folder's manifest was written.
        parts: What the latest filters have left.
        keywords: The terms of its documents.
        adapter: The map of queries to vectors of the index, where another encoder made those.
    """

    manifest: Manifest
    segments: Segments
    store: DocumentStore
    version: int = 0
    place: int = 0
    folder: Path | None = None
    stamp: Any = None
    parts: dict[str, Part] = field(default_factory=dict)
    adapter: Adapter | None = None
    keywords: Keywords = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keywords", Keywords(self.store))

    @property
    def language(self) -> str:
        """The language whose rules cut texts to words."""
        return self.manifest.keyword_language(self.folder)

    @property
    def _one_each(self) -> bool:
        """Whether each document has one text that no other has: a build then gives both the same number."""
        facts = self.manifest
        return facts.living is None and not facts.long and facts.documents == facts.vectors

    def newest(self) -> View:
        """The state of now; a folder that holds another index, or none, does not concern this one."""
        if self.folder is None:
            return self
        view, stamp = self, _stamp(self.folder)
        if stamp != self.stamp:
            with contextlib.suppress(InputError):
                manifest = Manifest.read(self.folder)
                if manifest.line == self.manifest.line:
                    return open_view(self.folder, verify=False)
            view = replace(self, stamp=stamp)
        return view._caught_up() if isinstance(self.store, LivingStore) else view

    def _caught_up(self) -> View:
        store = self.store
        if not isinstance(store, LivingStore) or store.version() == self.version:
            return self
        known = self.segments.numbers
        number = int(known[-1]) + 1 if len(known) else len(self.segments.base)
        new = store.changes(number=number, place=self.place, dimension=self.manifest.dimension)
        segments = self.segments.changed(new.dead, new.numbers, new.vectors)
        if len(segments) != new.texts:
            raise InputError(
                f"{store.path} does not have exactly one vector per text", "build the index again"
            )
        manifest = replace(
            self.manifest,
            documents=new.documents,
            vectors=new.texts,
            left_out=new.left_out,
            split=new.split,
            cut=new.cut,
        )
        return replace(
            self, manifest=manifest, segments=segments, version=new.version, place=new.place, parts={}
        )

    def part(self, where: Where | None) -> Part | None:
        """The vectors and the number of documents that meet conditions; None where they have changed."""
        if where is None:
            return Part(self.segments, self.manifest.documents)
        part = self.parts.get(where.key)
        if part is None:
            with self.store.reading():
                if self.store.version() != self.version:
                    return None
                documents, texts = self.store.numbers_where(where)
            reason = None if documents else where.explain_no_match()
            among = np.zeros(max(documents, default=-1) + 1, dtype=np.bool_)
            among[documents] = True
            part = Part(self.segments.only(np.array(texts, dtype=np.int64)), len(documents), among, reason)
            if len(self.parts) >= _FILTERS:
                self.parts.clear()
            self.parts[where.key] = part
        return part

    def rank(
        self,
        queries: Vectors,
        k: int,
        min_score: float | None,
        where: Where | None,
        encode: Encode,
    ) -> list[list[Ranked]] | None:
        """The documents nearest to each query, best first; None where they have changed since this view.

        `encode` does so with the texts of documents, should the index rank by them.
        """
        part = self.part(where)
        if part is None:
            return None
        k = min(k, part.documents)
        if k == 0:
            return [[] for _ in queries]
        ranked: list[list[Ranked]] = [[] for _ in queries]
        most = len(part.segments)
        # As many texts as so many documents have on average, and more where a few documents have them all.
        wanted = min(most, -(-k * most // part.documents)) if self.manifest.split else min(most, k)
        left = np.arange(len(queries))
        while len(left):
            some = queries if len(left) == len(queries) else queries[left]
            nearest = self._nearest(part.segments, some, wanted, encode)
            if nearest is None:
                return None
            scores, texts = nearest
            if min_score is not None:
                texts = np.where(scores >= min_score, texts, -1)
            rows = list(zip(scores.tolist(), texts.tolist(), strict=True))
            with self.store.reading():
                if self.store.version() != self.version:
                    return None
                texts_found = {text for _, row in rows for text in row if text >= 0}
                owners = None if self._one_each else self.store.owners(texts_found, k, where)
            short = []
            for query, row in zip(left.tolist(), rows, strict=True):
                ranked[query] = _best(*row, owners, k)
                short.append(len(ranked[query]) < k and row[1][-1] >= 0)
            if wanted == most:
                break
            left, wanted = left[short], min(most, 4 * wanted)
        return ranked

    def _nearest(
        self, segments: Segments, queries: Vectors, k: int, encode: Encode
    ) -> tuple[Vectors, Numbers] | None:
        """The nearest texts of each query; None as for `rank`."""
        texts = segments.base.texts
        if not texts:
            return segments.search(queries, k)
        found = segments.search(queries, min(candidates(texts, k), len(segments)))[1]
        return rescored(queries, found, lambda numbers: self.exact(numbers, encode), k)

    def exact(self, numbers: Numbers, encode: Encode) -> Vectors | None:
        """The vectors (n, dim) of rising numbers, from texts where these rank; None as for `rank`."""
        if not self.segments.base.texts:
            return self.segments.rows(numbers)
        old = np.searchsorted(numbers, len(self.segments.base))
        with self.store.reading():
            if self.store.version() != self.version:
                return None
            texts = self.store.texts_of(numbers[:old].tolist())
        written = self.segments.rows(numbers[old:])
        if not texts:
            return written
        again = comparable(encode(texts), self.manifest.metric)
        return np.concatenate([again, written])

    def rank_by_keywords(
        self, queries: Sequence[QueryTerms], k: int, min_score: float | None, where: Where | None
    ) -> list[list[Ranked]] | None:
        """The documents with terms of each query, best first; None as for `rank`."""
        part = self.part(where)
        if part is None:
            return None
        least = -np.inf if min_score is None else min_score
        ranked = []
        for query in queries:
            with self.store.reading():
                if self.store.version() != self.version:
                    return None
                postings = self.keywords.read(query)
            found = self.keywords.rank(query, postings, k, among=part.among)
            hits = zip(found.scores.tolist(), found.documents.tolist(), strict=True)
            ranked.append([Ranked(score, number) for score, number in hits if score >= least])
        return ranked

    def fetch(self, ranked: list[list[Ranked]]) -> Fetched | None:
        """The documents that were ranked; None as for `rank`."""
        with self.store.reading():
            if self.store.version() != self.version:
                return None
            documents = self.store.by_number({hit.document for row in ranked for hit in row})
            pairs = ((hit.document, hit.text) for row in ranked for hit in row)
            return Fetched(documents, self.store.spans_of(set(pairs)) if self.manifest.long else {})

    def vectors_by_id(self, ids: Sequence[str | int], encode: Encode) -> Vectors | None:
        """The vectors (n, dim) of some documents; None as for `rank`."""
        with self.store.reading():
            if self.store.version() != self.version:
                return None
            numbers = self.store.texts_by_id(ids)
        if not self.segments.base.keeps_vectors:
            raise InputError(
                f"the index is {self.manifest.factory}, which does not store the vectors",
                "build the index with another kind",
            )
        unique, places = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
        found = self.exact(unique, encode)
        return None if found is None else found[places]

    def numbers_of(self, ids: Iterable[str | int]) -> dict[str | int, int] | None:
        """The numbers of the documents with some ids that there are; None as for `rank`."""
        with self.store.reading():
            return self.store.document_numbers(ids) if self.store.version() == self.version else None

    def sample(self, count: int, encode: Encode) -> tuple[list[str], Vectors] | None:
        """Some of the texts, always the same, and their vectors (n, dim); None as for `rank`."""
        alive = self.segments.alive
        if not self.segments.base.keeps_vectors:
            alive = self.segments.numbers
        chosen = np.sort(np.random.default_rng(0).permutation(alive)[:count])
        with self.store.reading():
            if self.store.version() != self.version:
                return None
            texts = self.store.texts_of(chosen.tolist())
        vectors = self.exact(chosen, encode)
        return None if vectors is None else (texts, vectors)

    def vectors_of(self, texts: Sequence[str]) -> Vectors:
        """The vectors (n, dim) of texts that are here."""
        return self.segments.rows(np.array(self.store.numbers_of(texts), dtype=np.int64))


def _best(scores: list[float], texts: list[int], owners: dict[int, list[int]] | None, k: int) -> list[Ranked]:
    """The documents of texts, best first; each by the best of its texts. None: their numbers are the same."""
    if owners is None:
        best = zip(scores[:k], texts[:k], strict=True)
        return [Ranked(score, text, text) for score, text in best if text >= 0]
    found: dict[int, Ranked] = {}
    for score, text in zip(scores, texts, strict=True):
        for document in owners.get(text, ()):
            found.setdefault(document, Ranked(score, document, text))
        if len(found) >= k:
            break
    return list(found.values())[:k]


def open_view(path: Path, *, verify: bool) -> View:
    """Open an index folder."""

    def open_files(manifest: Manifest) -> View:
        file = path / manifest.files["vectors"].name
        vectors = VectorIndex.read(file, manifest.kind, manifest.effort, manifest.rescored)
        segments = Segments.of(vectors)
        fits = vectors.dimension == manifest.dimension
        if manifest.living is None:
            store = DocumentStore(path / manifest.files["documents"].name)
            fits = fits and len(vectors) == manifest.vectors
        else:
            store = LivingStore(path / manifest.living)
            if verify:
                store.verify()
        if not fits:
            raise InputError(f"the vectors of {path} do not match the manifest", "build it again")
        facts, adapter = manifest.adapter, None
        if facts is not None:
            map_file = path / manifest.files["adapter"].name
            adapter = Adapter.read(map_file, facts.dimension, manifest.dimension)
        return View(manifest, segments, store, folder=path, stamp=stamp, adapter=adapter)._caught_up()

    # Before anything is read: a manifest that is replaced meanwhile is seen by the next search.
    stamp = _stamp(path)
    return open_folder(path, open_files, verify=verify)


def _stamp(folder: Path) -> Any:
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
