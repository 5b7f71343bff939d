"""A searchable corpus."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np

from sentemb._fusion import EVEN
from sentemb.encoding.encoder import EncoderSpec, TextEncoder, Vectors, for_role
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.search import documents as sizes
from sentemb.search.documents import (
    OVERLAP,
    Batches,
    Document,
    Progress,
    Truncate,
    check_ids,
    check_vectors,
    chunk_documents,
    chunk_number,
    encode_unique,
    with_vectors,
)
from sentemb.search.keywords import AUTO
from sentemb.search.local import LocalStore
from sentemb.search.manifest import Abstention, HybridWeight, Manifest
from sentemb.search.plan import Kind, Metric
from sentemb.search.searching import (
    Hits,
    Mode,
    SearchArguments,
    SearchOptions,
    check_queries,
    explain_no_match,
    find,
    weight_by_generating,
    weight_by_qrels,
)
from sentemb.search.store import Changed, Ranked, Store
from sentemb.search.vectors import Rescore
from sentemb.search.where import Field, Where

logger = logging.getLogger(__name__)

LANCEDB = "lancedb:"


def _quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


class SearchIndex:
    """Documents that are found by meaning, by their words, or by both.

    Make one with `build`, `load` or `open`. Searching is safe from several threads. The encoder is loaded
    when it is first needed.

    Args:
        store: The place where the index lives.
        encoder: The encoder, or the new place of its model; by default the one that the index names.

    Example:
        >>> index = SearchIndex.build(["a cat sat", "birds fly"], "all-MiniLM-L6-v2")
        >>> index.save("animals")
        >>> SearchIndex.load("animals").search("kitten", k=1)[0].text
        'a cat sat'
    """

    def __init__(self, store: Store, encoder: Any | None = None) -> None:
        self.store = store
        load = functools.partial(self.manifest.encoder.load, encoder, store.address)
        self._encoder: Callable[[], TextEncoder] = functools.cache(load)
        self._fitted: list[HybridWeight | None] = []  # weights that are not kept; empty until then
        self._reported: HybridWeight | None = None  # weights that a warning named
        self._abstains: tuple[Manifest, str | None] | None = None  # why it cannot, in one state
        if isinstance(store, LocalStore):
            store.encoder = self._encoder
        if encoder is not None:
            self._encoder()

    @classmethod
    def build(
        cls,
        documents: Iterable[Any] | ShardFolder,
        encoder: Any = None,
        *,
        source: EncoderSpec | None = None,
        kind: Kind | Literal["auto"] = "auto",
        metric: Metric | None = None,
        memory_budget: int | None = None,
        factory: str | None = None,
        language: str = AUTO,
        truncate: Truncate = "split",
        overlap: float = OVERLAP,
        rescore: Rescore = "auto",
        work_dir: str | Path | None = None,
        allow_empty: bool = False,
        progress: Progress | None = None,
    ) -> SearchIndex:
        """Index documents.

        Texts and vectors stream through files; memory holds one shard of 2,048 texts and the index itself.

        Args:
            documents: Texts, `(id, text)`, `(id, text, metadata)` or `Document`s, in any iterable;
                `read_documents` streams them from files. Blank texts are skipped and counted. Or a
                `ShardFolder` of `sentemb encode`, whose texts are not encoded again.
            encoder: Anything `sentemb.encoding.load_encoder` takes. For a `ShardFolder`, where its model is
                now; by default where it was.
            source: Where the encoder can be loaded from again; by default `encoder`, if that is a path
                or hub id.
            kind: `flat`, `hnsw` or `ivfpq`; `auto` chooses by size and budget, see `plan_index`.
            metric: `cosine` or `dot`; by default the similarity that the model was trained for.
            memory_budget: Bytes the index may take in memory; see `plan_index` for the default.
            factory: A description of faiss's index factory in place of `kind`, such as `IVF4096,PQ64x4fs`,
                for experts.
            language: Code of the documents' language, such as `en`, by whose rules texts become the words of
                keyword search: English words lose their endings, Vietnamese ones keep their accents, and
                others, such as `mul`, neither. `auto` detects it by frequent words; where it cannot, it is
                `und` until compaction, which tries again.
            truncate: What becomes of a text that is longer than the model reads: `split` indexes it in
                chunks, and the best of them is the document's score, so that nothing is lost; `warn` indexes
                its beginning and warns; `error` raises. Functions, word vectors and encoders without `tokens`
                are taken to read everything, and the texts of a `ShardFolder` are indexed as they are.
            overlap: How much of a chunk may be repeated in the next one, as a share of the model's length.
            rescore: Whether an `ivfpq` index does not keep the vectors and ranks the candidates of a search
                by their texts, which are encoded again: `texts` or `never`; `auto` does so with a static
                encoder.
            work_dir: Folder for intermediate files, with which the next build resumes an interrupted one; the
                caller removes it once the index is saved. By default a temporary folder, without resuming.
            allow_empty: Also build an index without documents, to which they are added later.
            progress: Called with `(stage, done, total)`.

        Returns:
            The index; it is in the work folder until it is saved.

        Raises:
            InputError: There are no documents, an id occurs twice, a type is wrong, nothing fits the
                budget, or a `ShardFolder` is damaged or of another encoder.
        """
        from sentemb.search.building import BuildOptions, build_index

        options = BuildOptions(
            kind=kind,
            metric=metric,
            memory_budget=memory_budget,
            factory=factory,
            language=language,
            rescore=rescore,
            truncate="warn" if isinstance(documents, ShardFolder) else truncate,
            overlap=overlap,
            allow_empty=allow_empty,
        )
        return cls(*build_index(documents, encoder, source, options, work_dir, progress or _quiet))

    @classmethod
    def load(cls, path: str | Path, encoder: Any | None = None, *, verify: bool = True) -> SearchIndex:
        """Open an index folder; the vector index is mapped and texts are read when they are needed.

        Args:
            path: The folder.
            encoder: The encoder it was built with, or its new place; by default the one that the index names.
            verify: Compare checksums first, which reads every byte once. Without it only sizes are compared,
                and a damaged file may crash faiss.
        """
        return cls(LocalStore(Path(path), verify=verify), encoder)

    @classmethod
    def open(cls, address: str | Path, encoder: Any | None = None) -> SearchIndex:
        """Open an index in a folder or in LanceDB.

        Args:
            address: A folder, as for `load`, or `lancedb:` and a folder or URI of LanceDB, such as
                `lancedb:s3://bucket/path` (`pip install 'sentemb[lancedb]'`).
            encoder: As for `load`.
        """
        if not str(address).startswith(LANCEDB):
            return cls.load(address, encoder)
        from sentemb.search.lancedb import LanceStore

        return cls(LanceStore(str(address)), encoder)

    @classmethod
    def upgrade(
        cls,
        path: str | Path,
        encoder: Any,
        *,
        source: EncoderSpec | None = None,
        truncate: Truncate | None = None,
        work_dir: str | Path | None = None,
        progress: Progress | None = None,
    ) -> SearchIndex:
        """Change an index folder to another encoder, and open it.

        Until the last moment the folder is the old index; processes that have it open keep it, and other
        writers wait.

        Args:
            path: The folder.
            encoder: The new encoder, as for `build`. If the index has it already, nothing is changed.
            source: As for `build`.
            truncate: As for `build`; by default what the index was built with. Texts are chunked again.
            work_dir: As for `build`.
            progress: As for `build`.
        """
        from sentemb.search.building import upgrade

        return cls.load(path, upgrade(Path(path), encoder, source, work_dir, truncate, progress or _quiet))

    @property
    def manifest(self) -> Manifest:
        """The current facts of the index."""
        with self.store.snapshot() as snapshot:
            return snapshot.manifest

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of documents and queries, loaded on first use."""
        return self._encoder()

    def info(self) -> dict[str, Any]:
        """Return the facts of the storage of the index, as JSON."""
        return self.store.info()

    def __len__(self) -> int:
        return self.manifest.documents

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the index folder: a manifest, the faiss index and the documents.

        With `overwrite`, an index that is there is replaced. Until the last moment the old one stays whole,
        and processes that have it open keep it.

        Raises:
            InputError: The place is taken or cannot be written to.
            OSError: The disk is full; what was there is unchanged.
        """
        if not isinstance(self.store, LocalStore):
            message = f"{self.store.address} cannot be saved to another place"
            raise InputError(message, "copy it with `sentemb index move`")
        self.store.save(Path(path), overwrite=overwrite)

    @overload
    def search(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self, queries: str, k: int = 10, **options: Unpack[SearchArguments]
    ) -> Hits: ...

    @overload
    def search(
        self, queries: Sequence[str], k: int = 10, **options: Unpack[SearchArguments]
    ) -> list[Hits]: ...

    def search(
        self,
        queries: str | Sequence[str],
        k: int = 10,
        *,
        mode: Mode = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
        vectors: Any | None = None,
        abstain: bool = False,
    ) -> Hits | list[Hits]:
        """Find the best documents for each query.

        Args:
            queries: One query or several.
            k: How many documents for each; up to all of them.
            mode: `dense` compares vectors, `keyword` ranks the documents that have words of the query by
                BM25, `hybrid` adds the scores of the first 1,000 of both in standard units.
            min_score: Skip documents that score less, or that are in percent no nearer than so many random
                pairs, as in "99.2%"; by default nothing is skipped.
            where: Find only documents whose metadata meet all of these conditions, such as
                `{"year": {">=": 2020}, "lang": "en"}`; see `Where`. There are `k` hits if so many do.
            vectors: The vectors of the queries, float (n, dim), from the encoder of the index for queries; by
                default they are encoded. With vectors, queries may be blank.
            abstain: Return no hits, but the `reason`, if none of them seems to answer a query, and give every
                hit its `p_value`; see `calibrate`. Hybrid search keeps the most answers. The guarantee is for
                a search of all documents.

        Returns:
            The hits, best first, documents with the same text in the order they were given; for several
            queries a list of them for each.

        Raises:
            InputError: `k` is not positive, a query is blank or not a string, a condition is not valid,
                `min_score` is a percentile that is not known, the keywords follow older rules, or the index
                is not calibrated to abstain, or has changed by more than 10 % of its documents since.
        """
        options = SearchOptions.checked(k, mode, min_score, where)
        texts = check_queries(queries, allow_blank=vectors is not None)
        if not texts:
            return []
        rows, weight = None, EVEN
        if abstain and (reason := self.explain_no_abstention()):
            raise InputError(reason, "run `sentemb index calibrate`, or search without abstain")
        if (mode != "keyword" or abstain) and vectors is None:
            rows = for_role(self.encoder, "query").encode(texts)
        if mode == "hybrid":
            weight = self._weight(fits=vectors is None)
        with self.store.snapshot() as snapshot:
            if vectors is not None:
                rows = check_vectors(vectors, snapshot.manifest.dimension, "query", len(texts))
            hits = find(snapshot, texts, rows, options, weight)
            if abstain and rows is not None:
                from sentemb.search.abstention import decide

                hits = decide(snapshot, texts, rows, options.where, hits)
        return hits[0] if isinstance(queries, str) else hits

    def fit(
        self,
        queries: Sequence[str] | None = None,
        relevant: Sequence[Iterable[str | int] | Mapping[str | int, float]] | None = None,
    ) -> HybridWeight | None:
        """Find out how much hybrid search should trust vectors and words, and keep it with the index.

        Args:
            queries: Queries whose documents are known; ten help, fifty are plenty. Without
                any, up to 200 are generated from the documents.
            relevant: For each query the ids of its relevant documents, or their grades by id.

        Returns:
            The weight and what it comes from; None where there are too few documents.

        Raises:
            InputError: A query is blank, there is not one entry in `relevant` for each, no relevant document
                is in the index, or the folder cannot be written to.
        """
        if queries is None and relevant is None:
            weight = weight_by_generating(self.store, self.encoder)
        elif queries is None or relevant is None:
            raise InputError("queries and relevant documents need each other", "pass both or neither")
        else:
            weight = weight_by_qrels(self.store, self.encoder, queries, relevant)
        if not self.store.keep(hybrid=weight):
            self._fitted = [weight]
        return weight

    def calibrate(
        self,
        queries: Sequence[str] | None = None,
        relevant: Sequence[Iterable[str | int] | Mapping[str | int, float]] | None = None,
        *,
        alpha: float = 0.05,
    ) -> Abstention:
        """Find out when a search has no answer, and keep it with the index, for `search(..., abstain=True)`.

        Args:
            queries: Queries of your users whose relevant documents are known, at least 1 / alpha - 1. At most
                the share `alpha` of unanswerable queries like these then gets an answer. Without any, up to
                200 are generated from the documents; for other queries nothing is guaranteed then.
            relevant: For each query the ids of its relevant documents, or their grades by id; none for a
                query that no document answers.
            alpha: Share of unanswerable queries that may get an answer.

        Returns:
            The calibration, with the share of answerable queries that get an answer.

        Raises:
            InputError: There are too few queries for `alpha`, a query is blank, there is not one entry in
                `relevant` for each, no relevant document is in the index, it is in LanceDB, or the folder
                cannot be written to.
        """
        from sentemb.search import abstention

        level = abstention.check_alpha(alpha)
        if queries is None and relevant is None:
            found = abstention.calibrate_on_generated(self.store, self.encoder, level)
        elif queries is None or relevant is None:
            raise InputError("queries and relevant documents need each other", "pass both or neither")
        else:
            found = abstention.calibrate_on_qrels(self.store, self.encoder, queries, relevant, level)
        self.store.keep(abstention=found)
        return found

    def explain_no_abstention(self) -> str | None:
        """Explain in a clause why a search cannot abstain; return None if it can."""
        from sentemb.search.abstention import explain_no_abstention

        with self.store.snapshot() as snapshot:
            if self._abstains is None or self._abstains[0] is not snapshot.manifest:
                self._abstains = snapshot.manifest, explain_no_abstention(snapshot)
            return self._abstains[1]

    def _weight(self, *, fits: bool) -> float:
        """Return the dense weight of hybrid search; one that is not kept is fitted once."""
        weight = self.manifest.hybrid
        if weight is None and fits:
            self._fitted = self._fitted or [weight_by_generating(self.store, self.encoder)]
            (weight,) = self._fitted
        if weight is None:
            return EVEN
        if weight.one_is_bad and weight != self._reported:
            logger.warning("%s", weight.reason())
            self._reported = weight
        return weight.weight

    def add(
        self,
        documents: Iterable[Any],
        vectors: Any | None = None,
        *,
        truncate: Truncate | None = None,
        progress: Progress | None = None,
    ) -> Changed:
        """Add documents, which are found once this returns.

        The documents of one call are added together or not at all. Every process that has the folder open
        finds the new state; another writer of it waits. An index that was built changes in a temporary folder
        until it is saved.

        Args:
            documents: As for `build`; a document without an id gets the next integer.
            vectors: Their vectors, float (n, dim), from the encoder of the index's documents; by default they
                are encoded.
            truncate: As for `build`; by default what the index was built with. Documents with vectors are
                indexed as they are.
            progress: Called with `("encode", done, 0)`.

        Returns:
            The counts.

        Raises:
            InputError: An id is in the index already or occurs twice, a document or a vector is not valid, or
                the folder holds another index by now.
        """
        return self._add(documents, vectors, truncate, progress, replacing=False)

    def update(
        self,
        documents: Iterable[Any],
        vectors: Any | None = None,
        *,
        truncate: Truncate | None = None,
        progress: Progress | None = None,
    ) -> Changed:
        """Put documents in the place of those with their ids; documents with new ids are added.

        Args:
            documents: As for `add`, each with an id. What is replaced moves to the end. A blank document
                removes the one that has its id.
            vectors: As for `add`.
            truncate: As for `add`.
            progress: As for `add`.
        """
        return self._add(documents, vectors, truncate, progress, replacing=True)

    def _add(
        self,
        documents: Iterable[Any],
        vectors: Any | None,
        truncate: Truncate | None,
        progress: Progress | None,
        *,
        replacing: bool,
    ) -> Changed:
        facts, report = self.manifest, progress or _quiet
        if vectors is not None:
            ready = check_vectors(vectors, facts.dimension, "document")
            return self.store.add(documents, lambda some: with_vectors(some, ready), replacing=replacing)
        of_documents = for_role(self.encoder, "document")

        def prepare(given: Iterator[Document]) -> Batches:
            chunked = chunk_documents(given, of_documents, truncate or facts.truncate, facts.overlap)
            done = 0
            while some := list(islice(chunked, sizes.SHARD_TEXTS)):
                done += len(some)
                yield some, encode_unique(of_documents, [text for one in some for text in one.texts])
                report("encode", done, 0)

        return self.store.add(documents, prepare, replacing=replacing)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents, which are not found any more once this returns; return how many there were.

        Ids that the index does not have are skipped. 1 and "1" are different ids.
        """
        return self.store.delete(check_ids(ids))

    def get(self, ids: Iterable[str | int]) -> list[Document | None]:
        """Return the documents with some ids, in their order; None for an id that the index does not have."""
        keys = check_ids(ids)
        with self.store.snapshot() as snapshot:
            numbers = snapshot.numbers_of(keys)
            found = snapshot.fetch([[Ranked(0, number) for number in numbers.values()]]).documents
        rows = (found.get(numbers.get(key, 0)) for key in keys)
        return [None if row is None else Document(row[1], row[0], row[2]) for row in rows]

    def documents(self, where: Mapping[str, Any] | None = None) -> list[Document]:
        """Return all documents, or those that meet conditions as of `search`, in the order of writing."""
        conditions = None if where is None else Where(where)
        with self.store.snapshot() as snapshot:
            return [chunked.document for chunked in snapshot.rows(conditions)]

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """Return the number of documents, or of those that meet conditions as of `search`."""
        conditions = None if where is None else Where(where)
        with self.store.snapshot() as snapshot:
            return snapshot.count(conditions)

    def explain_no_match(self, where: Mapping[str, Any]) -> str | None:
        """Explain in a sentence why no document can meet conditions; return None if one can."""
        conditions = Where(where)
        with self.store.snapshot() as snapshot:
            return explain_no_match(snapshot, conditions)

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the metadata with their types and values, those of most documents first."""
        with self.store.snapshot() as snapshot:
            return snapshot.fields()

    def vectors(self, ids: Iterable[str | int]) -> Vectors:
        """Return the vectors of documents, float32 (n, dim), in the order of their ids.

        They have the length 1 if the metric is `cosine`. Of a document in chunks it is that of the first.

        Raises:
            InputError: The index does not have such a document.
        """
        keys = check_ids(ids)
        with self.store.snapshot() as snapshot:
            numbers = snapshot.numbers_of(keys)
            for key in keys:
                if key not in numbers:
                    raise InputError(f"the index does not contain a document with the id {key!r}")
            chunks = [chunk_number(numbers[key], 0) for key in keys]
            unique, places = np.unique(np.array(chunks, dtype=np.int64), return_inverse=True)
            return snapshot.vectors(unique)[places]

    def compact(self, *, progress: Progress | None = None) -> None:
        """Build the vector index again, with the vectors that the index has.

        Until then, the time to search added documents grows with the number of their vectors, and deleted
        documents keep their space. Searches continue during the build. A kind that was requested stays; one
        that was chosen by size is chosen again, unless it is `ivfpq`, which keeps its size per vector.
        `progress` is called with `(stage, done, total)`.
        """
        self.store.compact(progress or _quiet)
