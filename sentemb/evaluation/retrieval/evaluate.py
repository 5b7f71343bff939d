"""Any searcher on sets of judged queries, with the ranks of all judged documents in the record."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sentemb._files import shareable
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.data.stored_texts import places_of
from sentemb.encoding import Role, TextEncoder, for_role, load_encoder
from sentemb.encoding.nearest import Hits
from sentemb.encoding.shards import ShardFolder
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.evaluation.environment import environment
from sentemb.evaluation.joining import joined
from sentemb.evaluation.naming import seed_of, slug
from sentemb.evaluation.retrieval.hybrid import HybridSearcher
from sentemb.evaluation.retrieval.metrics import METRICS, query_scores
from sentemb.evaluation.retrieval.named import searcher_of
from sentemb.evaluation.retrieval.ranking import judged_ranks, without_themselves
from sentemb.evaluation.retrieval.searchers import DenseSearcher, Searcher
from sentemb.evaluation.retrieval.trec import run_file, write_run
from sentemb.evaluation.schema import DataSet, Record, Score
from sentemb.evaluation.suites import RETRIEVAL

logger = logging.getLogger(__name__)

_TEXTS = 8192  # whose tokens are counted at a time
DEPTH = 1000
"""Documents that are found for a query: what MAP looks at, as in BEIR."""
ALL_DOCUMENTS, NOT_ITSELF = "all-documents", "not-itself"
"""Protocols of records: whether a query may find the document that has its own id."""


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
        system: Anything that `load_encoder` takes; `bm25`, `hybrid:MODEL`, a run in TREC's format or a folder
            of runs; or a `Searcher`.
        sets: Names of sets, folders, or sets that are read already.
        split: Of the sets; `test` by default, or what there is in its place.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a set whose number of documents or judgements differs from the catalogue's.
        exclude_same_ids: Leave out the document whose id is the query's, as BEIR does for sets whose queries
            are documents (ArguAna, Quora). Not by default: in CISI and many others equal ids are chance.
        runs: Write what was found in this folder, as `SYSTEM/SET.trec`.
        vectors: The documents' vectors, a folder of `sentemb encode`, so that nothing but queries is encoded;
            of one set, whose documents it holds in their order.
        progress: Show a progress bar of the encoding.

    Returns:
        The record: scores x 100, and `load_predictions` gives the ranks of all judged documents.

    Raises:
        InputError: The system, a set or a place cannot be used.

    Example:
        >>> record = evaluate_retrieval("bm25", ["scifact"], data_dir="data")  # doctest: +SKIP
        >>> record.score("scifact", "recall@100")  # doctest: +SKIP
    """
    searcher = as_searcher(system, None if vectors is None else ShardFolder(vectors))
    read = [
        one
        if isinstance(one, RetrievalSet)
        else load_retrieval(one, split=split, data_dir=data_dir, check_rows=check_rows)
        for one in sets
    ]
    if not read:
        raise InputError("the list of sets is empty", f"choose among {', '.join(RETRIEVAL.sets)}")
    check_names([one.name for one in read])
    records = evaluate_sets(
        searcher,
        read,
        exclude_same_ids=exclude_same_ids,
        runs=None if runs is None else Path(runs),
        progress=progress,
    )
    whole = None
    for record in records:
        whole = joined(whole, record)
    assert whole is not None  # there is a set
    return whole


def as_searcher(system: Any, stored: ShardFolder | None = None) -> Searcher:
    """Anything that finds documents, or that vectors can be had from; those of documents may be stored."""
    if isinstance(system, (str, Path)):
        return searcher_of(str(system), load_encoder, stored)
    searcher: Searcher = system if hasattr(system, "search") else DenseSearcher(load_encoder(system), stored)
    return searcher


def check_names(names: Sequence[str]) -> None:
    """Refuse two sets of one name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"the set {twice} is listed twice", "list each set once")


def evaluate_sets(
    searcher: Searcher,
    sets: Sequence[RetrievalSet],
    *,
    exclude_same_ids: bool = False,
    runs: Path | None = None,
    progress: bool = False,
) -> Iterator[Record]:
    """The record of each set, as soon as it is searched."""
    for data in sets:
        began = time.perf_counter()
        hits = search(searcher, data, exclude_same_ids=exclude_same_ids, progress=progress)
        if runs is not None:
            write_run(run_file(runs / slug(searcher.name), data.name), data, hits, slug(searcher.name))
        ranks = judged_ranks(hits, data)
        scores = {metric: 100 * float(query_scores(metric, ranks, data.gold).mean()) for metric in METRICS}
        yield Record(
            suite=RETRIEVAL.name,
            model=searcher.name,
            fingerprint=searcher.fingerprint,
            dimension=searcher.dimension,
            protocol=NOT_ITSELF if exclude_same_ids else ALL_DOCUMENTS,
            seed=seed_of(searcher.name),
            datasets=(dataset_of(data),),
            scores=tuple(
                Score(dataset=data.name, metric=name, value=value) for name, value in scores.items()
            ),
            encoder=searcher.describe(),
            environment=environment({data.name: time.perf_counter() - began}),
            details={
                "depth": DEPTH,
                "documents": {data.name: len(data.documents)},
                **_weights(searcher, data),
                **_cut(searcher, data),
            },
        ).with_predictions({data.name: ranks}, {data.name: data.gold})


def _weights(searcher: Searcher, data: RetrievalSet) -> dict[str, Any]:
    """The encoder's share in a hybrid, of each half of the queries where it is fitted on the other."""
    fits = searcher.fits.get(data.name, []) if isinstance(searcher, HybridSearcher) else []
    return {"weights": {data.name: [fit.weight for fit in fits]}} if fits else {}


def _cut(searcher: Searcher, data: RetrievalSet) -> dict[str, Any]:
    """How many texts of a set the encoder does not read whole."""
    dense = searcher.dense if isinstance(searcher, HybridSearcher) else searcher
    if not isinstance(dense, DenseSearcher):
        return {}
    texts: dict[Role, Sequence[str]] = {"document": data.documents, "query": data.queries}
    counts = {}
    for role, some in texts.items():
        tokens = tokens_of(for_role(dense.encoder, role))
        if tokens is not None:
            parts = (some[start : start + _TEXTS] for start in range(0, len(some), _TEXTS))
            if long := sum(int((tokens.lengths(part) > tokens.room).sum()) for part in parts):
                counts[role] = long
    return {"cut": {data.name: counts}} if counts else {}


def search(
    searcher: Searcher, data: RetrievalSet, *, exclude_same_ids: bool = False, progress: bool = False
) -> Sequence[Hits]:
    """What a searcher finds for each query."""
    hits = searcher.search(data, DEPTH + exclude_same_ids, progress=progress)
    if exclude_same_ids:
        return without_themselves(hits, data, DEPTH)
    if copies := _copies(data):
        logger.warning(
            "%s: %d of %d queries are also documents with the same id and text, so each retrieves "
            "itself. To exclude these documents, as BEIR does, use exclude_same_ids=True "
            "(--exclude-same-ids).",
            data.name,
            copies,
            len(data),
        )
    return hits


def _copies(data: RetrievalSet) -> int:
    """How many queries are a document of the same id, whose title may stand before the text."""
    numbers = places_of({*data.query_ids}, data.document_ids)
    both = zip(data.query_ids, data.queries, strict=True)
    return sum(data.documents[numbers[name]].endswith(query) for name, query in both if name in numbers)


def dataset_of(data: RetrievalSet) -> DataSet:
    """What a record says of a set; its items are queries."""
    return DataSet(
        name=data.name,
        split=data.split,
        items=len(data),
        sha256=checksum_of(data),
        source=shareable(data.source),
    )


def checksum_of(data: RetrievalSet) -> str:
    """Checksum of documents, queries and judgements, whatever files they came from."""
    digest = hashlib.sha256()
    for part in (data.document_ids, data.documents, data.query_ids, data.queries):
        digest.update(len(part).to_bytes(8, "little"))
        for text in part:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    digest.update(np.ascontiguousarray(data.judged, dtype="<i8").tobytes())
    return digest.hexdigest()
