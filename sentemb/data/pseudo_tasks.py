"""Judged queries without judgements: what is cut out of a document is to find the document.

Ranks of these say which of two searches reads one's own documents better, where nobody has judged anything
(the inverse cloze task: Lee, Chang and Toutanova. ACL 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sentemb.data.cutting import without, word_spans
from sentemb.data.language import language_of
from sentemb.data.own_documents import OwnDocument
from sentemb.data.pseudo_queries import FEWEST, MOST_DOCUMENTS, cut_queries
from sentemb.data.retrieval import RetrievalSet
from sentemb.data.sentences import sentences_of

TITLE, SENTENCE, CROP = KINDS = ("title", "sentence", "crop")
"""`title` asks for a document by its title, `sentence` by one of its sentences or lines, `crop` by 3 to 10
words from anywhere in it; the document has them no more."""
QUOTE = "quote"
"""The same as `crop`, but the document keeps the words: what favours keyword search the most."""
_SHORTEST, _LONGEST = 3, 40


class _Cut(NamedTuple):
    query: str
    rest: str


def pseudo_tasks(
    documents: Sequence[OwnDocument],
    *,
    count: int = 300,
    most: int = MOST_DOCUMENTS,
    seed: int = 0,
    language: str | None = None,
    kinds: Sequence[str] = KINDS,
    beside: Sequence[OwnDocument] = (),
) -> list[RetrievalSet]:
    """Cut queries of each kind out of documents.

    Args:
        documents: The documents.
        count: Queries of each kind; fewer where fewer documents allow one.
        most: Documents to be searched, drawn from all.
        seed: Of the draws.
        language: Code of the documents' language; found out by default.
        kinds: Some of `KINDS` and `QUOTE`.
        beside: Documents that are searched too, and asked for by no query.

    Returns:
        A set for each kind of which there are at least 20 queries, called `pseudo-KIND`. All hold the same
        documents, but for what was cut out of those that are asked for.
    """
    generator = np.random.default_rng(seed)
    drawn = [documents[number] for number in generator.permutation(len(documents))[:most]]
    spoken = language or language_of(document.whole for document in drawn[:1000])
    whole = [document.whole for document in drawn]
    crops = cut_queries(whole, count=count, most=most, seed=seed)
    cropped: list[_Cut | None] = [None] * len(drawn)
    for query, rest, row in zip(crops.queries, crops.documents, crops.rows, strict=False):
        cropped[row] = _Cut(query, rest)
    quoted = [
        None if cut is None else _Cut(cut.query, text) for cut, text in zip(cropped, whole, strict=True)
    ]
    found = {
        TITLE: _titles(drawn, beside, count),
        SENTENCE: _sentences(drawn, beside, count, generator),
        CROP: cropped,
        QUOTE: quoted,
    }
    return [
        _task(kind, cuts, whole, beside, spoken)
        for kind, cuts in found.items()
        if kind in kinds and sum(cut is not None for cut in cuts) >= FEWEST
    ]


def _titles(documents: Sequence[OwnDocument], beside: Sequence[OwnDocument], count: int) -> list[_Cut | None]:
    """The titles that one document has; a title and nothing else has nothing to find."""
    shared = Counter(document.title.casefold() for document in (*documents, *beside))
    fit = (
        bool(document.title and document.text) and shared[document.title.casefold()] == 1
        for document in documents
    )
    cuts = (
        _Cut(document.title, document.text) if one else None
        for document, one in zip(documents, fit, strict=True)
    )
    return _first(cuts, count)


def _sentences(
    documents: Sequence[OwnDocument],
    beside: Sequence[OwnDocument],
    count: int,
    generator: np.random.Generator,
) -> list[_Cut | None]:
    """A sentence of each document that no other has, of 3 to 40 words, beside which something is left."""
    spans = [sentences_of(document.text) for document in documents]
    shared = Counter(
        sentence
        for document, own in zip(
            (*documents, *beside), (*spans, *(sentences_of(one.text) for one in beside)), strict=True
        )
        for sentence in {document.text[start:stop] for start, stop in own}
    )

    def cuts() -> Iterable[_Cut | None]:
        for document, own in zip(documents, spans, strict=True):
            fit = [
                (start, stop)
                for start, stop in own
                if shared[document.text[start:stop]] == 1
                and _SHORTEST <= len(word_spans(document.text[start:stop])) <= _LONGEST
            ]
            if not fit or len(own) < 2:
                yield None
                continue
            start, stop = fit[int(generator.integers(len(fit)))]
            rest = without(document.text, start, stop)
            yield _Cut(document.text[start:stop], f"{document.title} {rest}".strip())

    return _first(cuts(), count)


def _first(cuts: Iterable[_Cut | None], count: int) -> list[_Cut | None]:
    """So many of them, in the order of the draw."""
    kept: list[_Cut | None] = []
    for cut in cuts:
        take = cut is not None and count > 0
        kept.append(cut if take else None)
        count -= take
    return kept


def _task(
    kind: str,
    cuts: Sequence[_Cut | None],
    texts: Sequence[str],
    beside: Sequence[OwnDocument],
    language: str,
) -> RetrievalSet:
    pairs = list(zip(cuts, texts, strict=True))
    documents = [text if cut is None else cut.rest for cut, text in pairs]
    rows = [row for row, (cut, _) in enumerate(pairs) if cut is not None]
    names = [str(number) for number in range(len(documents))]
    documents += [one.text if kind == TITLE and one.text else one.whole for one in beside]
    return RetrievalSet(
        name=f"pseudo-{kind}",
        split="cut",
        document_ids=names + [f"other-{number}" for number in range(len(beside))],
        documents=documents,
        query_ids=[f"query-{names[row]}" for row in rows],  # no document is asked for by its own id
        queries=[cut.query for cut in cuts if cut is not None],
        judged=np.array([(query, row, 1) for query, row in enumerate(rows)], dtype=np.int64),
        language=language,
    )
