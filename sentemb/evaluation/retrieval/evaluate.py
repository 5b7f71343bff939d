"""Any searcher on sets of queries with qrels, with the ranks of all documents with qrels in the record."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sentemb._files import shareable
from sentemb.data.catalogue import expand
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.stored_texts import places_of
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.nearest import Hits
from sentemb.encoding.shards import ShardFolder
from sentemb.errors import InputError
from sentemb.evaluation.environment import new_record
from sentemb.evaluation.record import join_records
from sentemb.evaluation.retrieval.metrics import METRICS, query_scores
from sentemb.evaluation.retrieval.naming import searcher_of
from sentemb.evaluation.retrieval.ranking import judged_ranks, run_file, without_themselves, write_run
from sentemb.evaluation.retrieval.reranking import RerankSearcher
from sentemb.evaluation.retrieval.searchers import DenseSearcher, HybridSearcher, Searcher
from sentemb.evaluation.schema import DataSet, Record, Score, checksum_of_parts, seed_of, slug
from sentemb.evaluation.suites import RETRIEVAL, Loaded, LoadedSuite, Options, Suite, read_available

logger = logging.getLogger(__name__)

DEPTH = 1000
"""Documents that are retrieved for a query: what MAP looks at, as in BEIR."""
ALL_DOCUMENTS, NOT_ITSELF = "all-documents", "not-itself"
"""Protocols of records: whether a query may retrieve the document that has its own id."""


def evaluate_retrieval(
    system: Searcher | TextEncoder | str | Path | Any,
    sets: Sequence[str | Path | RetrievalSet] = RETRIEVAL.sets,
    *,
    split: str | None = None,
    data_dir: str | Path | None = None,
    check_rows: bool = True,
    exclude_same_ids: bool = False,
    runs: str | Path | None = None,
    vectors: str | Path | None = None,
    progress: bool = False,
) -> Record:
    """Evaluate search: graded NDCG@10, MRR@10, MAP, recall, precision and hits, by trec_eval's definitions.

    Args:
        system: Anything that `load_encoder` takes, or the name of a late-interaction or sparse model; `bm25`,
            `hybrid:MODEL`, `rerank:FIRST+CROSS-ENCODER`, a run in TREC's format or a folder of runs; or a
            `Searcher`.
        sets: Names of sets, folders, or sets that are already read.
        split: Of the sets; `test` by default, or the only one.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a set whose number of documents or qrels differs from the catalogue's.
        exclude_same_ids: Exclude the document whose id is the query's, as BEIR does for sets whose queries
            are documents (ArguAna, Quora). Not by default: in CISI and many others equal ids are chance.
        runs: Folder in which the results are written, as `SYSTEM/SET.trec`.
        vectors: The documents' vectors, a folder of `sentemb encode`, so that only queries are encoded; of
            one set, whose documents it holds in their order.
        progress: Show a progress bar of the encoding.

    Returns:
        The record: scores x 100, and `load_predictions` returns the ranks of all documents with qrels.

    Raises:
        InputError: The system, a set or a place cannot be used.

    Example:
        >>> record = evaluate_retrieval("bm25", ["scifact"], data_dir="data")  # doctest: +SKIP
        >>> record.score("scifact", "recall@100")  # doctest: +SKIP
    """
    searcher = as_searcher(system, None if vectors is None else ShardFolder(vectors))
    load_set = partial(load_retrieval, split=split, data_dir=data_dir, check_rows=check_rows)
    read = [one if isinstance(one, RetrievalSet) else load_set(one) for one in sets]
    if not read:
        raise InputError("the list of sets is empty", f"choose among {', '.join(RETRIEVAL.sets)}")
    check_names([one.name for one in read])
    whole: Record | None = None
    folder = None if runs is None else Path(runs)
    for data in read:
        record = _evaluate_set(searcher, data, exclude_same_ids, folder, progress=progress)
        whole = join_records(whole, record)
    assert whole is not None  # there is a set
    return whole


def as_searcher(system: Any, stored: ShardFolder | None = None) -> Searcher:
    """Return the searcher that a name, an encoder or a searcher means; vectors of documents may be stored."""
    if isinstance(system, (str, Path)):
        return searcher_of(str(system), load_encoder, stored)
    searcher: Searcher = system if hasattr(system, "search") else DenseSearcher(load_encoder(system), stored)
    return searcher


def check_names(names: Sequence[str]) -> None:
    """Raise InputError if two sets have the same name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"the set {twice} is listed twice", "list each set once")


def search(
    searcher: Searcher, data: RetrievalSet, *, exclude_same_ids: bool = False, progress: bool = False
) -> Sequence[Hits]:
    """Return the hits of each query."""
    hits = searcher.search(data, DEPTH + exclude_same_ids, progress=progress)
    if exclude_same_ids:
        return without_themselves(hits, data, DEPTH)
    # Queries that are a document of the same id, whose title may stand before the text.
    numbers = places_of({*data.query_ids}, data.document_ids)
    both = zip(data.query_ids, data.queries, strict=True)
    if copies := sum(
        data.documents[numbers[name]].endswith(query) for name, query in both if name in numbers
    ):
        logger.warning(
            "%s: %d of %d queries are also documents with the same id and text, so each retrieves "
            "itself. To exclude these documents, as BEIR does, use exclude_same_ids=True "
            "(--exclude-same-ids).",
            data.name,
            copies,
            len(data),
        )
    return hits


def _evaluate_set(
    searcher: Searcher, data: RetrievalSet, exclude_same_ids: bool, runs: Path | None, *, progress: bool
) -> Record:
    began = time.perf_counter()
    hits = search(searcher, data, exclude_same_ids=exclude_same_ids, progress=progress)
    if runs is not None:
        write_run(run_file(runs / slug(searcher.name), data.name), data, hits, slug(searcher.name))
    ranks = judged_ranks(hits, data)
    scores = {metric: 100 * float(query_scores(metric, ranks, data.gold).mean()) for metric in METRICS}
    details: dict[str, Any] = {"depth": DEPTH, "documents": {data.name: len(data.documents)}}
    # The encoder's weight in a hybrid, of each half of the queries where it is fitted on the other.
    first = searcher.first if isinstance(searcher, RerankSearcher) else searcher
    if isinstance(first, HybridSearcher) and (fits := first.fits.get(data.name)):
        details["weights"] = {data.name: [fit.weight for fit in fits]}
    if isinstance(searcher, RerankSearcher):
        details["milliseconds"] = {data.name: searcher.milliseconds[data.name]}  # of a query's second stage
    return new_record(
        RETRIEVAL.name,
        searcher,
        {data.name: time.perf_counter() - began},
        protocol=NOT_ITSELF if exclude_same_ids else ALL_DOCUMENTS,
        seed=seed_of(searcher.name),
        datasets=(
            DataSet(
                name=data.name,
                split=data.split,
                items=len(data),  # queries
                sha256=checksum_of(data),
                source=shareable(data.source),
            ),
        ),
        scores=tuple(Score(dataset=data.name, metric=name, value=value) for name, value in scores.items()),
        details=details,
    ).with_predictions({data.name: ranks}, {data.name: data.gold})


def checksum_of(data: RetrievalSet) -> str:
    """Return a checksum of documents, queries and qrels, whatever files they came from."""

    def parts() -> Iterator[str | bytes]:
        for part in (data.document_ids, data.documents, data.query_ids, data.queries):
            yield len(part).to_bytes(8, "little")
            yield from part
        yield np.ascontiguousarray(data.judged, dtype="<i8").tobytes()

    return checksum_of_parts(parts())


def load(suite: Suite, options: Options) -> Loaded:
    """Read the requested sets, or those of the suite that are available."""
    names = suite.sets if options.sets is None else expand(options.sets)
    if not names:
        raise InputError("the list of sets is empty", "list one or more, such as scifact or a folder")
    check_names(names)
    read = partial(
        load_retrieval, split=options.judged, data_dir=options.data_dir, check_rows=options.check_rows
    )
    found, missing = read_available(names, read)
    check_names([one.name for one in found.values()])
    suites = (retrieval_suite(list(found.values()), options),) if found else ()
    return Loaded(suites, missing, options.sets is None)


def retrieval_suite(sets: Sequence[RetrievalSet], options: Options) -> LoadedSuite:
    """Return the suite of some sets; it encodes by itself, with the prompts of queries and documents."""
    by_name = {one.name: one for one in sets}

    def evaluate(system: Any, names: Sequence[str]) -> Iterator[tuple[Record, str]]:
        searcher = as_searcher(system)
        for name in names:
            record = _evaluate_set(
                searcher, by_name[name], options.exclude_same_ids, options.runs, progress=options.progress
            )
            figures = (f"{metric} {record.score(name, metric):.2f}" for metric in ("ndcg@10", "recall@100"))
            yield record, f"{name} {', '.join(figures)}, {record.environment.seconds[name]:.0f} s"

    return LoadedSuite(
        name=RETRIEVAL.name,
        protocol=NOT_ITSELF if options.exclude_same_ids else ALL_DOCUMENTS,
        checksums={name: checksum_of(one) for name, one in by_name.items()},
        texts=dict.fromkeys(by_name, ()),
        evaluate=evaluate,
        seed=seed_of,
    )
