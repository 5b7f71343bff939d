"""Queries generated from documents, for collections without relevance judgments.

Each query should retrieve the document that it comes from (the inverse cloze task: Lee, Chang and Toutanova,
Latent Retrieval for Weakly Supervised Open Domain Question Answering. ACL 2019), or the documents of its
neighborhood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from sentemb.data.bm25 import count_query_terms
from sentemb.data.documents import Document
from sentemb.data.keywords import bm25_idf
from sentemb.data.language import language_of, without_function_words
from sentemb.data.neighborhoods import Neighborhood, Neighborhoods
from sentemb.data.pseudo_queries import FEWEST, MOST_DOCUMENTS, cut_queries
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sentences import remove_span, sentences_of, strip_punctuation, word_spans

TITLE, SENTENCE, CROP = KINDS = ("title", "sentence", "crop")
"""The title of a document, one of its sentences, or 3 to 10 words in a row; removed from the document."""
QUOTE = "quote"
"""The same words as `crop`, which the document keeps. Quotes favor keyword search the most."""
NEIGHBORS, TOPIC = "neighbors", "topic"
"""Kinds with several relevant documents. `neighbors` is a sentence of a document that is left out of the
search: its neighborhood is relevant. `topic` is two to four terms that a neighborhood shares: the whole
neighborhood is relevant."""
ALL_KINDS = (*KINDS, QUOTE, NEIGHBORS, TOPIC)
CHOOSING = (SENTENCE, CROP, QUOTE, NEIGHBORS, TOPIC)
"""The kinds from which differences on real queries are predicted."""
_SHORTEST, _LONGEST = 3, 40  # words of a sentence
_TOPIC_TERMS, _CANDIDATES = 4, 12  # words of a topic, and terms from which they are taken
_LEAST_IDF = 0.7  # of a term of a topic
_DRAWN = 3  # documents per query of a kind that needs a neighborhood: many documents have none
MULTIPLE = 0.3
"""Share of the documents that must have two sentences or more. With fewer the queries of `sentence` come
from unusual documents, and nothing is left of most documents when a sentence is taken out."""


class _Query(NamedTuple):
    text: str
    row: int
    rest: str | None
    """What is left of the document; None if it stays as it is."""
    relevant: list[int]


def generate_queries(
    documents: Sequence[Document],
    *,
    count: int = 300,
    most: int = MOST_DOCUMENTS,
    seed: int = 0,
    language: str | None = None,
    kinds: Sequence[str] = KINDS,
    beside: Sequence[Document] = (),
) -> list[RetrievalSet]:
    """Generate up to `count` queries of each of some `kinds` from documents.

    Args:
        documents: The documents.
        count: Queries of each kind; fewer if fewer documents allow one.
        most: Documents to search, drawn from all.
        seed: Seed of the draws.
        language: Code of the documents' language; detected by default.
        kinds: Some of `ALL_KINDS`.
        beside: Further documents to search, from which no query is generated.

    Returns:
        A set, named by its kind, for each kind with at least 20 queries. All sets search the same documents,
        except for the words that were removed from those with a query. In the set `neighbors` a query has the
        id of its document, which `exclude_same_ids` then leaves out of the results.
    """
    generator = np.random.default_rng(seed)
    drawn = [documents[number] for number in generator.permutation(len(documents))[:most]]
    spoken = language or language_of(document.whole for document in drawn[:1000])
    corpus = _Corpus(drawn, beside, spoken)
    found: dict[str, list[_Query]] = {}
    if TITLE in kinds:
        found[TITLE] = list(islice(_titles(corpus), count))
    if SENTENCE in kinds:
        found[SENTENCE] = list(islice(_sentences(corpus, generator), count))
    if CROP in kinds or QUOTE in kinds:
        crops = cut_queries(corpus.texts[: len(drawn)], count=count, most=most, seed=seed)
        parts = zip(crops.queries, crops.documents, crops.rows, strict=False)
        found[CROP] = [_Query(query, row, rest, [row]) for query, rest, row in parts]
        found[QUOTE] = [query._replace(rest=None) for query in found[CROP]]
    if NEIGHBORS in kinds or TOPIC in kinds:
        rows = generator.permutation(len(drawn))[: _DRAWN * count].tolist()
        neighborhoods = Neighborhoods(corpus.texts, spoken)
        around = list(neighborhoods.around(rows))
        found[NEIGHBORS] = list(islice(_neighbors(corpus, around, generator), count))
        found[TOPIC] = list(islice(_topics(corpus, neighborhoods, around, generator), count))
    return [
        corpus.task(kind, queries)
        for kind, queries in found.items()
        if kind in kinds and len(queries) >= FEWEST
    ]


class _Corpus:
    """Documents to generate queries from, and others that are searched with them."""

    def __init__(self, own: Sequence[Document], others: Sequence[Document], language: str) -> None:
        self.own, self.others, self.language = own, others, language
        self.texts = [document.whole for document in (*own, *others)]
        self.sentences = [_sentence_spans(document.text) for document in (*own, *others)]

    def task(self, kind: str, queries: Sequence[_Query]) -> RetrievalSet:
        """Return the queries of a kind with the documents they should retrieve."""
        texts = list(self.texts)
        if kind == TITLE:  # no document is found by its title then, whether a query asks for it or not
            texts[len(self.own) :] = [one.text or one.whole for one in self.others]
        for query in queries:
            if query.rest is not None:
                texts[query.row] = query.rest
        names = [str(number) for number in range(len(self.own))]
        hidden = kind == NEIGHBORS
        judged = [(place, row, 1) for place, query in enumerate(queries) for row in sorted(query.relevant)]
        return RetrievalSet(
            name=kind,
            split="generated",
            document_ids=names + [f"other-{number}" for number in range(len(self.others))],
            documents=texts,
            query_ids=[names[one.row] if hidden else f"query-{place}" for place, one in enumerate(queries)],
            queries=[query.text for query in queries],
            judged=np.array(judged, dtype=np.int64),
            language=self.language,
        )


def _titles(corpus: _Corpus) -> Iterator[_Query]:
    """Yield titles that one document has; a document that is nothing but a title is skipped."""
    shared = Counter(document.title.casefold() for document in (*corpus.own, *corpus.others))
    for row, document in enumerate(corpus.own):
        if document.title and document.text and shared[document.title.casefold()] == 1:
            yield _Query(document.title, row, document.text, [row])


def _sentences(corpus: _Corpus, generator: np.random.Generator) -> Iterator[_Query]:
    """Yield a sentence of each document of several that no other document has."""
    if np.mean([len(spans) > 1 for spans in corpus.sentences[: len(corpus.own)]]) < MULTIPLE:
        return
    shared = Counter(
        sentence
        for document, spans in zip((*corpus.own, *corpus.others), corpus.sentences, strict=True)
        for sentence in {document.text[start:stop] for start, stop in spans}
    )
    for row, (document, spans) in enumerate(zip(corpus.own, corpus.sentences, strict=False)):
        fit = [
            (start, stop)
            for start, stop in spans
            if shared[document.text[start:stop]] == 1 and _is_sentence(document.text[start:stop])
        ]
        if fit and len(spans) > 1:
            start, stop = fit[int(generator.integers(len(fit)))]
            rest = remove_span(document.text, start, stop)
            yield _Query(document.text[start:stop], row, f"{document.title} {rest}".strip(), [row])


def _sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where sentences begin and end, also in a text without capitals."""
    if text.islower():
        text = "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)
    return sentences_of(text)


def _is_sentence(text: str) -> bool:
    return _SHORTEST <= len(word_spans(text)) <= _LONGEST


def _neighbors(
    corpus: _Corpus, around: Sequence[Neighborhood], generator: np.random.Generator
) -> Iterator[_Query]:
    """Yield a sentence of the center of each neighborhood; a whole document if it is one sentence."""
    for center, others in around:
        text = corpus.texts[center]
        fit = [text[start:stop] for start, stop in _sentence_spans(text) if _is_sentence(text[start:stop])]
        if fit:
            yield _Query(fit[int(generator.integers(len(fit)))], center, None, others)


def _topics(
    corpus: _Corpus,
    neighborhoods: Neighborhoods,
    around: Sequence[Neighborhood],
    generator: np.random.Generator,
) -> Iterator[_Query]:
    """Yield the terms with the most weight that at least half of a neighborhood shares."""
    weights = neighborhoods.weights
    idf = bm25_idf(len(corpus.texts), np.bincount(weights.indices, minlength=weights.shape[1]))
    for center, others in around:
        group = [center, *others]
        some = weights[group]
        sums = np.bincount(some.indices, weights=some.data, minlength=some.shape[1])
        holding = np.bincount(some.indices, minlength=some.shape[1])
        sums[(holding < max(3, len(group) / 2)) | (idf <= _LEAST_IDF)] = 0.0
        best = np.argsort(-sums, kind="stable")[:_CANDIDATES]
        words = _surface_words([corpus.texts[row] for row in group], corpus.language, neighborhoods.terms)
        chosen = [words[term] for term in best[sums[best] > 0].tolist() if term in words]
        if len(chosen) > 1:
            size = int(generator.integers(2, _TOPIC_TERMS + 1))
            yield _Query(" ".join(chosen[:size]), center, None, group)


def _surface_words(texts: Sequence[str], language: str, terms: dict[str, int]) -> dict[int, str]:
    """Return a word for each term, which is folded as nobody would type it; none for function words."""
    every = dict.fromkeys(
        strip_punctuation(text[start:stop]) for text in texts for start, stop in word_spans(text)
    )
    words = without_function_words(" ".join(every), language).split()
    counts, _ = count_query_terms(words, language, terms)
    rows, columns = counts.content.nonzero()
    found: dict[int, str] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        found.setdefault(column, words[row])
    return found
