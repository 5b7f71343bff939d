"""Queries generated from documents, for collections without relevance judgments, and related documents.

Each query should retrieve the document that it comes from (the inverse cloze task: Lee, Chang and Toutanova,
Latent Retrieval for Weakly Supervised Open Domain Question Answering. ACL 2019), or the documents of its
neighborhood. A query that stayed in its document would be found by its words alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from sentemb._fusion import FUSED, Judged, Ranking
from sentemb._threads import one_blas_thread
from sentemb.data.bm25 import (
    CountedQueries,
    bm25_idf,
    bm25_scores,
    bm25_weights,
    count_query_terms,
    count_terms,
)
from sentemb.data.documents import Document
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.words import (
    language_of,
    remove_span,
    sentences_of,
    strip_punctuation,
    without_function_words,
    word_spans,
)

TITLE, SENTENCE, CROP = KINDS = ("title", "sentence", "crop")
"""The title of a document, one of its sentences, or 3 to 10 words in a row; removed from the document."""
QUOTE = "quote"
"""The same words as `crop`, which the document keeps. Quotes favor keyword search the most."""
NEIGHBORS, TOPIC = "neighbors", "topic"
"""Kinds with several relevant documents. `neighbors` is a sentence of a document that the search
skips: its neighborhood is relevant. `topic` is two to four terms that a neighborhood shares: the whole
neighborhood is relevant."""
ALL_KINDS = (*KINDS, QUOTE, NEIGHBORS, TOPIC)
CHOOSING = (SENTENCE, CROP, QUOTE, NEIGHBORS, TOPIC)
"""The kinds from which differences on real queries are predicted."""
QUERIES, MOST_DOCUMENTS = 200, 5000
FEWEST = 20
"""With fewer queries, the draw matters more than the system."""
Double = npt.NDArray[np.float64]
_CROP, _SENTENCE = (3, 10), (3, 40)  # fewest and most words
_DRAWN = 3  # documents per query of a kind that needs a neighborhood: many documents have none
_MULTIPLE = 0.3  # share of the documents that must have several sentences: else little is left without one
_AT_ONCE = 64
SIMILAR = 16
MARGIN = 0.6
"""A document that scores this share of what a document scores itself may say the same, and is not a negative
(the percentage of the positive's score: Moreira et al., NV-Retriever. 2024)."""
_NEAREST, _NEIGHBORS = 30, (3, 10)  # documents by either way of search; fewest and most of a neighborhood


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
    cut: list[tuple[str, str, int]] = []
    whole: list[int] = []
    for row in generator.permutation(len(texts))[:most].tolist():
        words = word_spans(texts[row]) if len(cut) < count else []
        if len(words) < 2 * _CROP[0]:
            whole.append(row)
            continue
        length = min(int(generator.integers(_CROP[0], _CROP[1] + 1)), len(words) // 2)
        first = int(generator.integers(len(words) - length + 1))
        start, stop = words[first][0], words[first + length - 1][1]
        rest = f"{texts[row][:start]} {texts[row][stop:]}".strip()
        cut.append((texts[row][start:stop], rest, row))
    queries, documents, rows = map(list, zip(*cut, strict=True)) if cut else ([], [], [])
    return CutQueries(queries, documents + [texts[row] for row in whole], rows + whole)


def rank_both(
    cut: CutQueries, queries: npt.NDArray[np.float32], documents: npt.NDArray[np.float32], language: str
) -> Iterator[Judged]:
    """Yield the rankings of each query by inner products and by BM25; its own document is relevant."""
    counts, terms = count_terms(cut.documents, language)
    wanted, _ = count_query_terms(cut.queries, language, terms)
    by_words = (row for rows in bm25_scores(bm25_weights(counts), wanted, _AT_ONCE) for row in rows)
    for start in range(0, len(queries), _AT_ONCE):
        with one_blas_thread():
            block = queries[start : start + _AT_ONCE] @ documents.T
        for place, meaning in enumerate(block, start=start):
            dense, keyword = _best(meaning), _best(next(by_words), above=0.0)
            yield Judged(dense, keyword, total=len(documents), grades={place: 1.0})


def _best(scores: npt.NDArray[np.floating], above: float = -np.inf) -> Ranking:
    order = np.argsort(-scores, kind="stable")[:FUSED]
    order = order[scores[order] > above]
    return Ranking(order, scores[order])


def latent_vectors(counts: csr_array, *, fitted_on: int | None = None) -> Double:
    """Return unit vectors of latent semantic analysis, (texts, at most 100), from counts (texts, terms).

    The axes and the weights of terms come from the first `fitted_on` texts, or from all.
    """
    known = counts[:fitted_on]
    size = min(100, min(known.shape) - 1)
    if size < 1:
        return np.ones((counts.shape[0], 1))
    holding = np.bincount(known.indices, minlength=counts.shape[1])
    weighted = counts.copy()
    weighted.data = 1 + np.log(weighted.data)
    weighted.data *= (np.log((1 + known.shape[0]) / (1 + holding)) + 1)[counts.indices]
    with one_blas_thread():
        axes = svds(weighted[:fitted_on], k=size, v0=np.ones(min(known.shape)))[2].T
        found: Double = np.asarray(weighted @ axes)
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))


def similar_documents(texts: Sequence[str], *, language: str) -> list[list[int]]:
    """Return up to 16 similar texts of each text by BM25, the nearest first, without its near copies."""
    counts, _ = count_terms(texts, language)
    weights = bm25_weights(counts)
    counts.data = np.minimum(counts.data, 1.0)
    queries = CountedQueries(counts, csr_array(counts.shape))
    found: list[list[int]] = []
    size = min(SIMILAR, len(texts) - 1)
    for block in bm25_scores(weights, queries, max(1, (1 << 24) // len(texts))):
        for scores in block:
            number = len(found)
            scores[(scores >= MARGIN * scores[number]) | (scores <= 0)] = -1.0
            scores[number] = -1.0
            best = np.argpartition(-scores, size)[:size]
            best = best[scores[best] > 0]
            found.append(best[np.argsort(-scores[best], kind="stable")].tolist())
    return found


class _Query(NamedTuple):
    text: str
    row: int
    rest: str | None  # of the document; None if it stays as it is
    relevant: list[int]


def generate_queries(
    documents: Sequence[Document],
    *,
    count: int = 300,
    most: int = MOST_DOCUMENTS,
    seed: int = 0,
    language: str | None = None,
    kinds: Sequence[str] = KINDS,
    distractors: Sequence[Document] = (),
) -> list[RetrievalSet]:
    """Generate up to `count` queries of each kind from documents, of which up to `most` are searched.

    `distractors` are further documents to search. The language is detected by default. A set, named by
    its kind, is returned for each kind with at least 20 queries. All sets search the same documents,
    except for the words that were removed from those with a query. In the set `neighbors` a query has the
    id of its document, which `exclude_same_ids` then leaves out of the results.
    """
    generator = np.random.default_rng(seed)
    drawn = [documents[number] for number in generator.permutation(len(documents))[:most]]
    language = language or language_of(document.whole for document in drawn[:1000])
    every = [*drawn, *distractors]
    texts = [document.whole for document in every]
    found: dict[str, list[_Query]] = {}
    if TITLE in kinds:  # those that one document has; one that is nothing but a title is skipped
        shared = Counter(document.title.casefold() for document in every)
        titled = (row for row, one in enumerate(drawn) if one.title and one.text)
        unique = islice((row for row in titled if shared[drawn[row].title.casefold()] == 1), count)
        found[TITLE] = [_Query(drawn[row].title, row, drawn[row].text, [row]) for row in unique]
    if SENTENCE in kinds:
        found[SENTENCE] = list(islice(_sentences(drawn, every, generator), count))
    if CROP in kinds or QUOTE in kinds:
        crops = cut_queries(texts[: len(drawn)], count=count, most=most, seed=seed)
        parts = zip(crops.queries, crops.documents, crops.rows, strict=False)
        found[CROP] = [_Query(query, row, rest, [row]) for query, rest, row in parts]
        found[QUOTE] = [query._replace(rest=None) for query in found[CROP]]
    if NEIGHBORS in kinds or TOPIC in kinds:
        rows = generator.permutation(len(drawn))[: _DRAWN * count].tolist()
        found |= _of_neighborhoods(texts, language, rows, count, generator)
    sets = []
    for kind, queries in found.items():
        if kind in kinds and len(queries) >= FEWEST:
            # No document is found by its title in the set of titles, whether a query asks for it or not.
            others = [one.text or one.whole if kind == TITLE else one.whole for one in distractors]
            sets.append(_set(kind, queries, texts[: len(drawn)], others, language))
    return sets


def _set(
    kind: str, queries: Sequence[_Query], own: list[str], others: Sequence[str], language: str
) -> RetrievalSet:
    names = [str(number) for number in range(len(own))]
    for query in queries:
        if query.rest is not None:
            own[query.row] = query.rest
    judged = [(place, row, 1) for place, query in enumerate(queries) for row in sorted(query.relevant)]
    ids = [*names, *(f"other-{number}" for number in range(len(others)))]
    hidden = kind == NEIGHBORS
    query_ids = [names[query.row] if hidden else f"query-{place}" for place, query in enumerate(queries)]
    words, table = [query.text for query in queries], np.array(judged, dtype=np.int64)
    return RetrievalSet(kind, "generated", ids, [*own, *others], query_ids, words, table, language)


def _sentences(
    own: Sequence[Document], every: Sequence[Document], generator: np.random.Generator
) -> Iterator[_Query]:
    """Yield a sentence of each document of several that no other document has."""
    spans_of = [_sentence_spans(document.text) for document in every]
    if np.mean([len(spans) > 1 for spans in spans_of[: len(own)]]) < _MULTIPLE:
        return
    shared: Counter[str] = Counter()
    for document, spans in zip(every, spans_of, strict=True):
        shared.update({document.text[start:stop] for start, stop in spans})
    for row, (document, spans) in enumerate(zip(own, spans_of, strict=False)):
        text = document.text
        fit = [span for span in _fit(text, spans) if shared[text[slice(*span)]] == 1]
        if fit and len(spans) > 1:
            start, stop = fit[int(generator.integers(len(fit)))]
            rest = f"{document.title} {remove_span(text, start, stop)}".strip()
            yield _Query(text[start:stop], row, rest, [row])


def _sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where sentences begin and end, also in a text without capitals."""
    if text.islower():
        text = "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)
    return sentences_of(text)


def _fit(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    fewest, most = _SENTENCE
    return [(start, stop) for start, stop in spans if fewest <= len(word_spans(text[start:stop])) <= most]


def _of_neighborhoods(
    texts: Sequence[str], language: str, rows: Sequence[int], count: int, generator: np.random.Generator
) -> dict[str, list[_Query]]:
    """Return queries of neighborhoods of some of the texts: a sentence of the center, and shared terms.

    Two documents are neighbors if each way, BM25 with the words of the one as the query and the cosine of
    latent semantic analysis, has the other among its 30 nearest. Neither way alone decides, since each is a
    search system that would then be evaluated on its own results.
    """
    counts, terms = count_terms(texts, language)
    weights, latent = bm25_weights(counts), latent_vectors(counts)
    queries, _ = count_query_terms([texts[row] for row in rows], language, terms)
    queries.content.data = np.minimum(queries.content.data, 1.0)
    scores = (row for block in bm25_scores(weights, queries, _AT_ONCE) for row in block)
    around: list[tuple[int, list[int]]] = []
    for center, by_words in zip(rows, scores, strict=True):
        with one_blas_thread():
            cosines = latent @ latent[center]
        related = set(_nearest(cosines, center))
        both = [row for row in _nearest(by_words, center) if row in related and by_words[row] > 0]
        if len(both) >= _NEIGHBORS[0]:
            around.append((center, both[: _NEIGHBORS[1]]))
    sentences: list[_Query] = []
    for center, others in around:  # a whole document if it is one sentence
        fit = _fit(texts[center], _sentence_spans(texts[center])) if len(sentences) < count else []
        if fit:
            start, stop = fit[int(generator.integers(len(fit)))]
            sentences.append(_Query(texts[center][start:stop], center, None, others))
    topics: list[_Query] = []
    idf = bm25_idf(len(texts), np.bincount(weights.indices, minlength=weights.shape[1]))
    for center, others in around:
        words = _topic([center, *others], texts, language, weights, idf, terms) if len(topics) < count else []
        if len(words) > 1:
            text = " ".join(words[: int(generator.integers(2, 5))])
            topics.append(_Query(text, center, None, [center, *others]))
    return {NEIGHBORS: sentences, TOPIC: topics}


def _nearest(scores: Double, center: int) -> list[int]:
    """Return the rows with the highest scores, without the center; of equal ones the first."""
    count = min(_NEAREST + 1, len(scores))
    found = np.argpartition(-scores, count - 1)[:count]
    ordered = found[np.lexsort((found, -scores[found]))].tolist()
    return [row for row in ordered if row != center][:_NEAREST]


def _topic(
    group: list[int],
    texts: Sequence[str],
    language: str,
    weights: csr_array,
    idf: Double,
    terms: Mapping[str, int],
) -> list[str]:
    """Return the words of the terms with the most weight that at least half of a group shares."""
    some = weights[group]
    sums = np.bincount(some.indices, weights=some.data, minlength=some.shape[1])
    holding = np.bincount(some.indices, minlength=some.shape[1])
    sums[(holding < max(3, len(group) / 2)) | (idf <= 0.7)] = 0.0
    best = np.argsort(-sums, kind="stable")[:12]
    # A term is folded as nobody would type it: its first word is taken, unless that is a function word.
    spans = [(texts[row], span) for row in group for span in word_spans(texts[row])]
    every = dict.fromkeys(strip_punctuation(text[slice(*span)]) for text, span in spans)
    words = without_function_words(" ".join(every), language).split()
    counts, _ = count_query_terms(words, language, terms)
    places = zip(*(places.tolist() for places in counts.content.nonzero()), strict=True)
    word_of = {column: words[row] for row, column in reversed([*places])}
    return [word_of[term] for term in best[sums[best] > 0].tolist() if term in word_of]
