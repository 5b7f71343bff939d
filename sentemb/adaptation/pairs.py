"""Training pairs by the structure of the documents: what is cut out of one, and the rest of it.

Four kinds of queries: the title for the body (as users type few words), a sentence or line for the rest (the
inverse cloze task: Lee, Chang and Toutanova. ACL 2019), of which only what is before a colon is asked for if
there is one, as lists and glossaries say there what an entry is; a crop of 3 to 20 words; and words of the
document that are rare in the others, next to each other as in a keyword query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sentemb.data.documents import Document
from sentemb.data.generated_queries import similar_documents
from sentemb.data.words import IdfWeights, remove_span, sentences_of, strip_punctuation, word_spans

KINDS = {"title": 1, "sentence": 4, "crop": 1, "words": 2}
"""How often each is drawn, of those that a document allows; a sentence is the most like a question."""
GROUP = 4
"""Documents of a batch that are each other's neighbours: negatives that are hard."""
_SHORTEST, _LONGEST_CROP, _LONGEST_SENTENCE = 3, 20, 40  # words
_WORDS, _STRETCH = (3, 8), (10, 30)  # of a keyword query, and of the text that they come from
_ROOM = 80  # words of a document that are read in a step; long ones are read from anywhere
_LIST_MARK = re.compile(r"[-*+•–]\s+|\(?\d{1,3}[.)]\s+")
_WHOLE = 0.3  # share of the crops that stay in their document, so that equal words still count (as in ICT)


class Pair(NamedTuple):
    """A query and the document that it is to find.

    Attributes:
        query: The query.
        document: What is left of its document, or a part of that.

    Example:
        >>> Pair("wait for a thread", "Block until the thread ends, or the timeout is over.").query
        'wait for a thread'
    """

    query: str
    document: str


def allows_pair(document: Document) -> bool:
    """Return whether a pair can be generated from a document: it has six words."""
    return len(word_spans(document.whole)) >= 2 * _SHORTEST


def draw_pairs(
    documents: Sequence[Document], count: int, *, language: str, seed: int, batch_size: int = 1
) -> list[Pair]:
    """Draw training pairs, one of each document before any has a second.

    Neighbours by their words come together, so that batches taken in order have hard negatives.

    Args:
        documents: The documents to train on.
        count: Number of pairs.
        language: Code of the documents' language.
        seed: Seed of the draws.
        batch_size: Size of batches, which do not have a document twice if so many allow a pair.

    Returns:
        The pairs; none if no document has six words.

    Example:
        >>> from sentemb.data.documents import Document
        >>> texts = ["The cat sleeps. It dreams of mice.", "A dog barks loudly. It hears the postman."]
        >>> documents = [Document(text, str(number)) for number, text in enumerate(texts)]
        >>> len(draw_pairs(documents, 4, language="en", seed=0))
        4
    """
    generator = np.random.default_rng(seed)
    if len(documents) > count:  # neighbours are looked for among those that have a pair
        documents = [documents[row] for row in generator.permutation(len(documents))[:count]]
    cutter = _Cutter(documents, generator)
    able = [cutter.kinds_of(document) for document in documents]
    rows = [row for row, kinds in enumerate(able) if kinds]
    if not rows:
        return []
    near = similar_documents([documents[row].whole for row in rows], language=language)
    pairs: list[Pair] = []
    order: list[int] = []
    while len(pairs) < count:
        begun = order[len(order) - len(pairs) % batch_size :]  # of the unfinished batch
        order = _put_off(list(_grouped(near, cutter.generator)), begun, batch_size - len(begun))
        for place in order:
            row = rows[place]
            pairs.append(cutter.cut(documents[row], cutter.draw(able[row])))
    return pairs[:count]


def _put_off(order: Sequence[int], begun: Sequence[int], room: int) -> list[int]:
    """An order whose first places, as many as there is room, repeat nothing of a batch that has begun."""
    first = [number for number in order if number not in {*begun}][:room] if begun else []
    chosen = {*first}
    return first + [number for number in order if number not in chosen]


def _grouped(near: Sequence[Sequence[int]], generator: np.random.Generator) -> Iterator[int]:
    """Every number once, in groups of neighbours that are in random order."""
    used: set[int] = set()
    groups = []
    for number in generator.permutation(len(near)).tolist():
        if number in used:
            continue
        group = [number, *(other for other in near[number] if other not in used)][:GROUP]
        used.update(group)
        groups.append(group)
    for place in generator.permutation(len(groups)):
        yield from groups[place]


class _Cutter:
    """Cuts queries out of documents."""

    def __init__(self, documents: Sequence[Document], generator: np.random.Generator) -> None:
        self.generator = generator
        self._rarity = IdfWeights(document.whole for document in documents)

    def kinds_of(self, document: Document) -> list[str]:
        """The kinds that a document allows."""
        if not allows_pair(document):
            return []
        has_title = bool(document.title and document.text)
        several = len(sentences_of(document.text)) > 1
        return [*["title"] * has_title, *["sentence"] * several, "crop", "words"]

    def draw(self, kinds: Sequence[str]) -> str:
        """One of the kinds."""
        shares = np.cumsum([KINDS[kind] for kind in kinds])
        return kinds[int(np.searchsorted(shares, self.generator.random() * shares[-1], side="right"))]

    def cut(self, document: Document, kind: str) -> Pair:
        """Cut a query of a kind out of a document."""
        if kind == "title":
            return Pair(document.title, self._part(document.text))
        if kind == "sentence":
            return self._sentence(document)
        whole = document.whole
        spans = word_spans(whole)
        return self._crop(whole, spans) if kind == "crop" else self._words(whole, spans)

    def _sentence(self, document: Document) -> Pair:
        spans = sentences_of(document.text)
        start, stop = spans[int(self.generator.integers(len(spans)))]
        rest = remove_span(document.text, start, stop)
        query = self._part(_head(document.text[start:stop]), _LONGEST_SENTENCE)
        return Pair(query, f"{document.title} {self._part(rest)}".strip())

    def _crop(self, whole: str, spans: Sequence[tuple[int, int]]) -> Pair:
        length = min(int(self.generator.integers(_SHORTEST, _LONGEST_CROP + 1)), len(spans) // 2)
        first = int(self.generator.integers(len(spans) - length + 1))
        start, stop = spans[first][0], spans[first + length - 1][1]
        stays = self.generator.random() < _WHOLE
        rest = whole if stays else remove_span(whole, start, stop)
        return Pair(whole[start:stop], self._part(rest))

    def _words(self, whole: str, spans: Sequence[tuple[int, int]]) -> Pair:
        """Rare words of a stretch of the document, which stays whole, or is cut around them."""
        length = min(len(spans), int(self.generator.integers(_STRETCH[0], _STRETCH[1] + 1)))
        first = int(self.generator.integers(len(spans) - length + 1))
        words = [strip_punctuation(whole[start:stop]) for start, stop in spans[first : first + length]]
        weights = np.array([self._rarity.weight(word) for word in words])
        if not weights.any():
            return self._crop(whole, spans)
        wanted = int(self.generator.integers(_WORDS[0], _WORDS[1] + 1))
        size = min(wanted, int((weights > 0).sum()))
        chosen = self.generator.choice(length, size, replace=False, p=weights / weights.sum())
        begin = max(0, first - int(self.generator.integers(_ROOM - length)))
        begin = min(begin, max(0, len(spans) - _ROOM))
        stretch = spans[begin : begin + _ROOM]
        return Pair(
            " ".join(words[place] for place in sorted(chosen.tolist())),
            whole[stretch[0][0] : stretch[-1][1]],
        )

    def _part(self, text: str, room: int = _ROOM) -> str:
        """The text, or of a long one its beginning or any other part."""
        spans = word_spans(text)
        if len(spans) <= room:
            return text
        anywhere = self.generator.random() < 0.5
        first = int(self.generator.integers(len(spans) - room + 1)) if anywhere else 0
        return text[spans[first][0] : spans[first + room - 1][1]]


def _head(sentence: str) -> str:
    """Return the part before the colon, without the mark of a list, if it has enough words."""
    head = _LIST_MARK.sub("", sentence).partition(": ")[0]
    return head if len(word_spans(head)) >= _SHORTEST else sentence
