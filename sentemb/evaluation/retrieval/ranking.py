"""Ranked documents of queries: order, ties, and the ranks of what was judged.

Ties are broken as trec_eval breaks them: scores count as float32, and of equal ones the greatest document id
comes first. So a run has the same metrics in memory, in a TREC file, and in trec_eval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sentemb._threads import one_blas_thread
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.stored_texts import Places, descending, places_of
from sentemb.encoding.nearest import NOTHING, Numbers, Single, merged, ranked, rows_of_block
from sentemb.encoding.nearest import Hits as Hits


def id_places(data: RetrievalSet) -> Numbers:
    """The place of each document when their ids are in descending order."""
    order = descending(data.document_ids)
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


@one_blas_thread()
def nearest(
    queries: Single,
    blocks: Iterable[tuple[Places, Single]],
    firsts: Places,
    places: Numbers,
    depth: int,
) -> list[Hits]:
    """Exact search by inner products, some documents at a time.

    Args:
        queries: Vectors of shape (queries, dimension).
        blocks: The numbers of some documents (n,) and their vectors (n, dimension), of each text once.
        firsts: Of each document the first one with the same text, (documents,): equal texts tie exactly,
            whatever a product's last bits.
        places: As of `id_places`.
        depth: How many documents are wanted.

    Returns:
        The hits of each query.
    """
    copies = _copies(firsts)
    found = [NOTHING for _ in queries]
    for numbers, vectors in blocks:
        again = [(place, copies[number]) for place, number in enumerate(numbers.tolist()) if number in copies]
        rows = np.concatenate([np.arange(len(numbers)), *(np.full(len(own), place) for place, own in again)])
        documents = np.concatenate([numbers, *(own for _, own in again)])
        size = rows_of_block(len(numbers))
        for start in range(0, len(queries), size):
            similarities = queries[start : start + size] @ vectors.T  # (block, n)
            for query, own in enumerate(similarities, start):
                found[query] = merged(found[query], documents, own[rows] if again else own, places, depth)
    return found


def _copies(firsts: Places) -> dict[int, Places]:
    """The further documents with the text of some documents."""
    again = np.flatnonzero(firsts != np.arange(len(firsts)))
    order = again[np.argsort(firsts[again], kind="stable")]
    first, starts = np.unique(firsts[order], return_index=True)
    return dict(zip(first.tolist(), np.split(order, starts[1:]), strict=True)) if len(again) else {}


def best(scores: Single, places: Numbers, depth: int, *, above: float = -np.inf) -> Hits:
    """The best documents, given the scores of all."""
    least = np.partition(scores, len(scores) - depth)[len(scores) - depth] if depth < len(scores) else -np.inf
    chosen = np.flatnonzero((scores >= least) & (scores > above))
    return ranked(chosen, scores[chosen], places, depth)


def without_themselves(hits: Sequence[Hits], data: RetrievalSet, depth: int) -> list[Hits]:
    """Leave out of each query's hits the document that has its id."""
    numbers = places_of({*data.query_ids}, data.document_ids)
    own = [numbers.get(query, -1) for query in data.query_ids]
    kept = [one.documents != number for one, number in zip(hits, own, strict=True)]
    return [
        Hits(one.documents[rows][:depth], one.scores[rows][:depth])
        for one, rows in zip(hits, kept, strict=True)
    ]


def judged_ranks(hits: Sequence[Hits], data: RetrievalSet) -> npt.NDArray[np.int64]:
    """The rank of each judged document, from 1; 0 where it was not found. Shape (judgements,)."""
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
