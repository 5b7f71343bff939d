"""Short spans of documents as queries: each should retrieve its document, from which it was removed.

They measure a search without qrels (the inverse cloze task: Lee, Chang and Toutanova, Latent Retrieval for
Weakly Supervised Open Domain Question Answering. ACL 2019). A query that stayed in its document would be
found by its words alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb._fusion import FUSED, Judged, Ranking
from sentemb._threads import one_blas_thread
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms
from sentemb.data.sentences import word_spans

QUERIES = 200
MOST_DOCUMENTS = 5000
# Words of a query.
_SHORTEST, _LONGEST = 3, 10
FEWEST = 20
"""With fewer queries, the draw matters more than the system."""
_AT_ONCE = 64


class CutQueries(NamedTuple):
    """Queries; the documents they were removed from, in the same order, then whole ones; all their rows."""

    queries: list[str]
    documents: list[str]
    rows: list[int]


def cut_queries(
    texts: Sequence[str], *, count: int = QUERIES, most: int = MOST_DOCUMENTS, seed: int = 0
) -> CutQueries:
    """Draw up to `most` documents and remove a query of 3 to 10 words, at most half, from `count` of them."""
    generator = np.random.default_rng(seed)
    drawn = generator.permutation(len(texts))[:most].tolist()
    queries: list[str] = []
    documents: list[str] = []
    rows: list[int] = []
    whole: list[int] = []
    for position, row in enumerate(drawn):
        if len(queries) == count:
            whole.extend(drawn[position:])
            break
        words = word_spans(texts[row])
        if len(words) < 2 * _SHORTEST:
            whole.append(row)
            continue
        length = min(int(generator.integers(_SHORTEST, _LONGEST + 1)), len(words) // 2)
        first = int(generator.integers(len(words) - length + 1))
        start, stop = words[first][0], words[first + length - 1][1]
        queries.append(texts[row][start:stop])
        documents.append(f"{texts[row][:start]} {texts[row][stop:]}".strip())
        rows.append(row)
    return CutQueries(queries, documents + [texts[row] for row in whole], rows + whole)


def rank_both(
    cut: CutQueries, queries: npt.NDArray[np.float32], documents: npt.NDArray[np.float32], language: str
) -> Iterator[Judged]:
    """Yield the rankings of each query by the inner products of vectors and by BM25.

    The document that a query was removed from is relevant.
    """
    counts, terms = count_terms(cut.documents, language)
    wanted, _ = count_query_terms(cut.queries, language, terms)
    by_words = (row for rows in bm25_scores(bm25_weights(counts), wanted, _AT_ONCE) for row in rows)
    by_meaning = _inner_products(queries, documents)
    for place, (meaning, words) in enumerate(zip(by_meaning, by_words, strict=True)):
        yield Judged(_best(meaning), _best(words, above=0.0), total=len(documents), grades={place: 1.0})


def _inner_products(
    queries: npt.NDArray[np.float32], documents: npt.NDArray[np.float32]
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield each query's inner products with all documents."""
    for start in range(0, len(queries), _AT_ONCE):
        with one_blas_thread():
            block = queries[start : start + _AT_ONCE] @ documents.T
        yield from block


def _best(scores: npt.NDArray[np.floating], above: float = -np.inf) -> Ranking:
    order = np.argsort(-scores, kind="stable")[:FUSED]
    order = order[scores[order] > above]
    return Ranking(order, scores[order])
