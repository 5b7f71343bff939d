"""Queries that are cut out of documents: each is to find the document it was cut from, which has it no more.

They tell how well a search reads the documents where nothing is judged (the inverse cloze task: Lee, Chang
and Toutanova, Latent Retrieval for Weakly Supervised Open Domain Question Answering. ACL 2019). A query that
stayed in its document would be found by its words alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sentemb._fusion import FUSED, Ranking
from sentemb._fusion_weights import Judged
from sentemb._threads import one_blas_thread
from sentemb.data.bm25 import bm25_scores, bm25_weights, count_query_terms, count_terms
from sentemb.data.cutting import word_spans

QUERIES = 200
MOST_DOCUMENTS = 5000
# Words of a query.
_SHORTEST, _LONGEST = 3, 10
FEWEST = 20
"""Of fewer queries the draw says more than what is searched with."""
_AT_ONCE = 64


class CutQueries(NamedTuple):
    """Documents, some of which a query was cut from."""

    queries: list[str]
    documents: list[str]
    """The query of the same place was cut from the first of them; the others are whole."""
    rows: list[int]
    """Where each stands among the texts that were given."""


def cut_queries(
    texts: Sequence[str], *, count: int = QUERIES, most: int = MOST_DOCUMENTS, seed: int = 0
) -> CutQueries:
    """Cut queries of 3 to 10 words out of a sample of documents, at most half of each.

    Args:
        texts: The documents, each once.
        count: How many queries are wanted; fewer where fewer documents have 6 words.
        most: How many documents are drawn.
        seed: Of the draw.

    Returns:
        The queries and the documents.
    """
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
    """What an encoder and BM25 find for each query.

    Args:
        cut: The queries and the documents.
        queries: Vectors of the queries, whose inner products with those of the documents rank.
        documents: Vectors of the documents.
        language: Code of the language, which decides how BM25 cuts words.

    Yields:
        Both rankings of a query; the document that it was cut from is relevant.
    """
    counts, terms = count_terms(cut.documents, language)
    wanted, _ = count_query_terms(cut.queries, language, terms)
    by_words = (row for rows in bm25_scores(bm25_weights(counts), wanted, _AT_ONCE) for row in rows)
    by_meaning = _inner_products(queries, documents)
    for place, (meaning, words) in enumerate(zip(by_meaning, by_words, strict=True)):
        both = _best(meaning), _best(words, above=0.0)
        yield Judged(*both, total=len(documents), grades={place: 1.0})


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
