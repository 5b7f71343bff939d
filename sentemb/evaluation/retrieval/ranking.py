"""Ranked documents of queries: order, ties, ranks of the documents with qrels, and TREC run files.

Ties are broken as trec_eval breaks them: scores count as float32, and of equal ones the greatest document id
comes first. So a run has the same metrics in memory, in a TREC file, and in trec_eval. A line of a run file
is `query Q0 document rank score tag`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb._files import write_text
from sentemb._threads import one_blas_thread
from sentemb.data.files import read_lines
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.stored_texts import Places, descending, places_of
from sentemb.encoding.nearest import NOTHING, Numbers, Single, merged, ranked, rows_of_block
from sentemb.encoding.nearest import Hits as Hits
from sentemb.errors import InputError
from sentemb.evaluation.schema import slug

SUFFIX = ".trec"
_FIELDS = 6


def id_places(data: RetrievalSet) -> Numbers:
    """Return the place of each document when their ids are in descending order."""
    order = descending(data.document_ids)
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


@one_blas_thread()
def nearest(
    queries: Any,
    blocks: Iterable[tuple[Places, Any]],
    firsts: Places,
    places: Numbers,
    depth: int,
    *,
    compare: Callable[[Any, Any], Single] = lambda queries, documents: queries @ documents.T,
) -> list[Hits]:
    """Search exactly by inner products, or by what `compare` computes, some documents at a time.

    Args:
        queries: Vectors of shape (queries, dimension), or an array of anything that `compare` takes.
        blocks: The numbers of some documents (n,) and their vectors (n, dimension), of each text once.
        firsts: The first document with the same text as each, (documents,): equal texts tie exactly.
        places: As of `id_places`.
        depth: Number of documents to return.
        compare: Maps a part of the queries and a block's vectors to similarities (part, n).
    """
    copies = _copies(firsts)
    found = [NOTHING for _ in queries]
    for numbers, vectors in blocks:
        again = [(place, copies[number]) for place, number in enumerate(numbers.tolist()) if number in copies]
        rows = np.concatenate([np.arange(len(numbers)), *(np.full(len(own), place) for place, own in again)])
        documents = np.concatenate([numbers, *(own for _, own in again)])
        size = rows_of_block(len(numbers))
        for start in range(0, len(queries), size):
            similarities = compare(queries[start : start + size], vectors)  # (block, n)
            for query, own in enumerate(similarities, start):
                found[query] = merged(found[query], documents, own[rows] if again else own, places, depth)
    return found


def _copies(firsts: Places) -> dict[int, Places]:
    """Return the further documents with the text of each repeated document."""
    again = np.flatnonzero(firsts != np.arange(len(firsts)))
    order = again[np.argsort(firsts[again], kind="stable")]
    first, starts = np.unique(firsts[order], return_index=True)
    return dict(zip(first.tolist(), np.split(order, starts[1:]), strict=True)) if len(again) else {}


def best(scores: Single, places: Numbers, depth: int, *, above: float = -np.inf) -> Hits:
    """Return the best documents, given the scores of all."""
    least = np.partition(scores, len(scores) - depth)[len(scores) - depth] if depth < len(scores) else -np.inf
    chosen = np.flatnonzero((scores >= least) & (scores > above))
    return ranked(chosen, scores[chosen], places, depth)


def without_themselves(hits: Sequence[Hits], data: RetrievalSet, depth: int) -> list[Hits]:
    """Remove the document with the query's own id from the hits of each query."""
    numbers = places_of({*data.query_ids}, data.document_ids)
    own = [numbers.get(query, -1) for query in data.query_ids]
    kept = [one.documents != number for one, number in zip(hits, own, strict=True)]
    return [
        Hits(one.documents[rows][:depth], one.scores[rows][:depth])
        for one, rows in zip(hits, kept, strict=True)
    ]


def judged_ranks(hits: Sequence[Hits], data: RetrievalSet) -> npt.NDArray[np.int64]:
    """Return the rank of each document with qrels, from 1; 0 where it was not found. Shape (qrels,)."""
    ranks = np.zeros(len(data.judged), dtype=np.int64)
    # One place more, which stays 0: the number of a document that the set does not hold is -1.
    places = np.zeros(len(data.documents) + 1, dtype=np.int64)
    ends = np.searchsorted(data.judged[:, 0], np.arange(len(data) + 1))
    for number, one in enumerate(hits):
        rows = slice(ends[number], ends[number + 1])
        places[one.documents] = np.arange(1, len(one.documents) + 1)
        ranks[rows] = places[data.judged[rows, 1]]
        places[one.documents] = 0
    return ranks


def run_file(folder: Path, name: str) -> Path:
    """Return the path of the run of a set in a folder of runs."""
    return folder / f"{slug(name)}{SUFFIX}"


def read_run(path: Path, data: RetrievalSet) -> list[Hits]:
    """Read the hits of each query of a set from a run file.

    The score alone decides the order, as in trec_eval; the ranks that the file states do not count. Queries
    without qrels are skipped, and those that the file does not have have no hits.

    Raises:
        InputError: The file is missing, a line is broken, a document is unknown or listed twice for a query,
            or no query has qrels; with the line.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}", "use a run file in TREC format")
    queries = {name: number for number, name in enumerate(data.query_ids)}
    named = {fields[2] for _, line in read_lines(path) if len(fields := line.split()) == _FIELDS}
    numbers = places_of(named, data.document_ids)
    found: list[dict[int, float]] = [{} for _ in queries]
    for number, line in read_lines(path):
        fields = line.split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        if len(fields) != _FIELDS:
            raise InputError(
                f"{where}: expected six fields, found {len(fields)}",
                "write lines of the form QUERY Q0 ID RANK SCORE TAG",
            )
        if fields[0] not in queries:
            continue
        document = numbers.get(fields[2])
        if document is None:
            raise InputError(
                f"{where}: {data.name} does not contain a document {fields[2]!r}",
                "check that the run belongs to this set",
            )
        own = found[queries[fields[0]]]
        if document in own:
            raise InputError(
                f"{where}: document {fields[2]!r} is listed twice for query {fields[0]!r}",
                "keep one of the lines",
            )
        own[document] = _parse_score(fields[4], where)
    if not any(found):
        raise InputError(
            f"{path} does not contain any query of {data.name} with qrels",
            "check that the run belongs to this set",
        )
    places = id_places(data)
    return [
        ranked(np.array([*own], dtype=np.int32), np.array([*own.values()]), places, len(own)) for own in found
    ]


def write_run(path: Path, data: RetrievalSet, hits: Sequence[Hits], tag: str) -> None:
    """Write a run whose order every reader of the scores restores."""
    for name in chain(data.query_ids, data.document_ids):
        if len(name.split()) != 1:
            raise InputError(
                f"{data.name}: the id {name!r} contains a space, which the TREC format does not allow"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        f"{query} Q0 {data.document_ids[document]} {rank} {score!s} {tag}\n"
        for query, one in zip(data.query_ids, hits, strict=True)
        for rank, (document, score) in enumerate(zip(one.documents, one.scores, strict=True), start=1)
    )
    write_text(path, "".join(lines))


def _parse_score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{where}: the score {text!r} is not a number", "use a finite number")
    return score
