"""A searchable corpus."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

from sentemb._fusion import EVEN
from sentemb.encoding.encoder import TextEncoder
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError
from sentemb.search.address import in_lancedb
from sentemb.search.build import build_at
from sentemb.search.documents import as_documents
from sentemb.search.encoders import facts_of, matching, resolve
from sentemb.search.fitting import weight_by_cutting, weight_by_judged
from sentemb.search.hit import Hit
from sentemb.search.hybrid_weight import HybridWeight
from sentemb.search.keywords import AUTO, check_language
from sentemb.search.manifest import EncoderFacts
from sentemb.search.open_index import OpenIndex
from sentemb.search.plan import Kind, Metric
from sentemb.search.prepared import OVERLAP, Prepared, Truncate
from sentemb.search.rescoring import Rescore, again, check_choices, metric_of
from sentemb.search.searching import Mode, Wanted, by_both, by_keywords, by_vectors, check_queries, find
from sentemb.search.segments import Segments
from sentemb.search.shards import Progress
from sentemb.search.source import EncoderSource
from sentemb.search.truncation import Truncation
from sentemb.search.upgrade import SAMPLE, upgrade
from sentemb.search.view import View, open_view
from sentemb.search.work import SHARDS

logger = logging.getLogger(__name__)


class SearchIndex(OpenIndex):
    """Documents that are found by meaning, by their words, or by both.

    Make one with `build` or `load`. Each unique text or passage has one vector, however many documents share
    it.
    Searching is safe from several threads.

    Example:
        >>> index = SearchIndex.build(["a cat sat", "birds fly"], "all-MiniLM-L6-v2")
        >>> index.save("animals")
        >>> SearchIndex.load("animals").search("kitten", k=1)[0].text
        'a cat sat'
    """

    def __init__(self, view: View, encoder: TextEncoder) -> None:
        super().__init__(view, encoder)
        self._measured: list[HybridWeight | None] = []
        self._said: HybridWeight | None = None

    @classmethod
    def build(
        cls,
        documents: Iterable[Any],
        encoder: Any,
        *,
        source: EncoderSource | None = None,
        kind: Kind | Literal["auto"] = "auto",
        metric: Metric | None = None,
        memory_budget: int | None = None,
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
                `read_documents` streams them from files. Blank texts are left out and counted.
            encoder: Anything `sentemb.encoding.load_encoder` takes.
            source: Where the encoder can be loaded from again; known by itself when `encoder` is a path or
                hub id.
            kind: `flat`, `hnsw` or `ivfpq`; `auto` chooses by size and budget, see `plan_index`.
            metric: `cosine` or `dot`; by default the similarity that the model was trained for.
            memory_budget: Bytes the index may take in memory; see `plan_index` for the default.
            language: Code of the documents' language, such as `en`, by whose rules texts are cut to the words
                of keyword search: English words lose their endings, Vietnamese ones keep their accents, and
                others, such as `mul`, neither. `auto` finds it out by frequent words; where it cannot, it is
                `und` until compaction, which tries again.
            truncate: What becomes of a text that is longer than the model reads: `split` indexes it in
                passages, and the best of them is the document's score, so that nothing is lost; `warn`
                indexes its beginning and warns; `error` refuses it. Functions, word vectors and encoders
                without `tokens` are taken to read everything.
            overlap: How much of a passage may be repeated in the next one, as a share of the model's length.
            rescore: Whether an `ivfpq` index, whose codes can then be small, ranks the candidates of a search
                by their texts, which are encoded again: `texts` or `never`; `auto` does so with a static
                encoder.
            work_dir: Folder for intermediate files, with which the next build resumes one that died; the
                caller removes it once the index is saved. By default a temporary folder, without resuming.
            allow_empty: Make an index of no documents too, to which they are added later.
            progress: Called with `(stage, done, total)`.

        Returns:
            The index; its documents lie in the work folder until it is saved.

        Raises:
            InputError: No documents, an id given twice, a wrong type, or nothing fits the budget.
        """
        check_choices(metric, rescore)
        check_language(language)
        loaded = resolve(encoder)
        of_documents = for_role(loaded, "document")
        truncation = Truncation(of_documents, truncate, overlap)
        return cls.of_prepared(
            truncation.prepared(as_documents(documents)),
            of_documents,
            loaded,
            facts_of(loaded, encoder, source),
            work_dir,
            progress,
            {"truncate": truncate, "overlap": overlap},
            kind=kind,
            metric=metric or metric_of(loaded),
            memory_budget=memory_budget,
            allow_empty=allow_empty,
            language=language,
            again=again(of_documents, rescore),
        )

    @classmethod
    def of_prepared(
        cls,
        prepared: Iterator[Prepared],
        of_documents: TextEncoder,
        encoder: TextEncoder,
        facts: EncoderFacts,
        work_dir: str | Path | None,
        progress: Progress | None,
        noted: Mapping[str, Any],
        **options: Any,
    ) -> SearchIndex:
        """Index documents that are cut to passages already; see `build`, and `build_in` for the options."""
        ready = progress or (lambda stage, done, total: None)
        folder, manifest, vectors, store = build_at(
            work_dir, prepared, of_documents, facts, progress=ready, **options
        )
        index = cls(View(replace(manifest, **noted), Segments.of(vectors), store), encoder)
        if work_dir is None:
            for shard in folder.glob(SHARDS):
                shard.unlink()
            weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        return index

    @overload
    def search(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self,
        queries: str,
        k: int = 10,
        *,
        mode: Mode = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
        vectors: Any | None = None,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        mode: Mode = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
        vectors: Any | None = None,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        queries: str | Sequence[str],
        k: int = 10,
        *,
        mode: Mode = "dense",
        min_score: float | str | None = None,
        where: Mapping[str, Any] | None = None,
        vectors: Any | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """Find the best documents for each query.

        Args:
            queries: One query or several.
            k: How many documents for each; all of them where there are fewer.
            mode: `dense` compares vectors, `keyword` ranks the documents that have words of the query by
                BM25, `hybrid` adds the scores of the first 1,000 of both in standard units.
            min_score: Leave out documents that score less, or that are in percent no nearer than so many
                random pairs, as in "99.2%"; by default nothing is left out.
            where: Find only documents whose metadata meet all of these conditions, such as
                `{"year": {">=": 2020}, "lang": "en"}`; see `Where`. There are `k` hits if so many do.
            vectors: The vectors of the queries, float (n, dim), from the encoder of the index for queries; by
                default they are encoded. With vectors, queries may be blank.

        Returns:
            The hits, best first, documents with the same text in the order they were given; for several
            queries a list of them for each.

        Raises:
            InputError: `k` is not positive, a query is blank or no string, a condition is none, `min_score`
                is in percent and there is no such percentile, or keywords are asked of an index from before
                there were any.
        """
        wanted = Wanted.checked(k, mode, min_score, where)
        texts = check_queries(queries, blank=vectors is not None)
        if not texts:
            return []
        if mode == "keyword":
            rank = by_keywords(self._current(), texts, wanted)
        else:
            if vectors is None:
                encoded = for_role(self._encoder, "query").encode(texts)
            else:
                encoded = self._ready(vectors, len(texts))
            if mode == "dense":
                rank = by_vectors(self._view, encoded, wanted, self._encoder)
            else:
                weight = self._weight(measure=vectors is None)
                rank = by_both(self._current(), encoded, texts, wanted, self._encoder, weight)
        hits = find(self._current, rank, texts, wanted)
        return hits[0] if isinstance(queries, str) else hits

    def fit(
        self,
        queries: Sequence[str] | None = None,
        relevant: Sequence[Iterable[str | int] | Mapping[str | int, float]] | None = None,
    ) -> HybridWeight | None:
        """Find out how much hybrid search should trust vectors and words, and keep it with the index.

        Args:
            queries: Queries whose documents are known; ten are better than none, fifty are plenty. Without
                any, up to 200 are cut from the documents, which says less but needs no judgement.
            relevant: For each query the ids of its relevant documents, or their grades by id.

        Returns:
            The weight and what it comes from; None where there are too few documents to cut queries from.

        Raises:
            InputError: A query is blank, there is not one entry in `relevant` for each, no relevant document
                is in the index, or the folder cannot be written to.
        """
        if queries is None and relevant is None:
            weight = weight_by_cutting(self._current, self._encoder)
        elif queries is None or relevant is None:
            raise InputError("queries and relevant documents need each other", "pass both or neither")
        else:
            weight = weight_by_judged(self._current, self._encoder, queries, relevant)
        self._keep(weight)
        return weight

    def _weight(self, *, measure: bool) -> float:
        """The encoder's weight in hybrid search; where none is kept, it is found out once for this object."""
        kept = self.manifest.hybrid
        if kept is None and measure:
            if not self._measured:
                self._measured = [weight_by_cutting(self._current, self._encoder)]
            (kept,) = self._measured
        if kept is None:
            return EVEN
        if kept.one_is_bad and kept != self._said:
            logger.warning("%s", kept.reason())
            self._said = kept
        return kept.weight

    @classmethod
    def load(cls, path: str | Path, encoder: Any | None = None, *, verify: bool = True) -> SearchIndex:
        """Open an index folder; vectors are mapped and texts read when they are needed.

        Args:
            path: The folder.
            encoder: The encoder it was built with, or its new place; by default the one the manifest names.
            verify: Compare checksums first, which reads every byte once. Without it only sizes are compared,
                and a damaged file may crash faiss.

        Returns:
            The index.

        Raises:
            InputError: No index, a damaged one, or another encoder than the one it was built with.
        """
        view = open_view(Path(path), verify=verify)
        return cls(view, matching(encoder, view, Path(path)))

    @classmethod
    def open(cls, address: str | Path, encoder: Any | None = None) -> SearchIndex:
        """Open an index wherever it lives.

        Args:
            address: A folder, as for `load`, or `lancedb:` and a folder or URI of LanceDB, such as
                `lancedb:s3://bucket/path` (`pip install 'sentemb[lancedb]'`).
            encoder: As for `load`.

        Returns:
            The index.

        Raises:
            InputError: As for `load`.
        """
        if not in_lancedb(address):
            return cls.load(address, encoder)
        from sentemb.search.lancedb_index import LanceIndex

        return LanceIndex(str(address), encoder)

    @classmethod
    def upgrade(
        cls,
        path: str | Path,
        encoder: Any,
        *,
        source: EncoderSource | None = None,
        adapter: bool = False,
        sample: int = SAMPLE,
        truncate: Truncate | None = None,
        kind: Kind | Literal["auto"] | None = None,
        memory_budget: int | None = None,
        work_dir: str | Path | None = None,
        progress: Progress | None = None,
    ) -> SearchIndex:
        """Change an index folder to another encoder, and open it.

        Until the last moment the folder is the old index; processes that have it open keep it, and other
        writers wait.

        Args:
            path: The folder.
            encoder: The new encoder, as for `build`. If it is the one of the documents already, only an
                adapter is taken away, if there is one.
            source: As for `build`.
            adapter: Keep the vectors of the documents, and map those of queries to them by a linear map that
                is learned from a sample of the documents. `manifest.adapter` says what that costs. Documents
                that are added later are encoded with the old encoder, which must be there for that.
            sample: From how many texts the map is learned.
            truncate: As for `build`; by default what the index was built with. Without `adapter`, texts are
                cut anew, for what the new encoder reads.
            kind: As for `compact`.
            memory_budget: As for `compact`.
            work_dir: As for `build`.
            progress: As for `build`.

        Returns:
            The index with the new encoder.

        Raises:
            InputError: No index; with `adapter`, too few texts or an IVF-PQ index without re-ranking codes.
        """
        loaded = resolve(encoder)
        with tempfile.TemporaryDirectory(prefix="sentemb-index-") as temporary:
            upgrade(
                Path(path),
                loaded,
                facts_of(loaded, encoder, source),
                Path(temporary if work_dir is None else work_dir),
                adapter=adapter,
                sample=sample,
                truncate=truncate,
                kind=kind,
                memory_budget=memory_budget,
                progress=progress or (lambda stage, done, total: None),
            )
        return cls.load(path, loaded)
