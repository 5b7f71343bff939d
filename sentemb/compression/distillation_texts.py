"""Texts to learn the teacher's vectors of, cut from documents."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sentemb.data.own_documents import OwnDocument
from sentemb.data.sentences import sentences_of
from sentemb.errors import InputError

SHORTEST, LONGEST = 20, 150
"""Characters of a sentence: of short texts, whose vectors have few words, there is most to learn."""
LEAST_TEXTS = 500
_HELD_OUT = 0.05
_MOST_HELD_OUT = 2000


class Texts(NamedTuple):
    """What is learned and what is held out."""

    training: list[str]
    held_out: list[str]


def draw_texts(documents: Sequence[OwnDocument], *, most: int, seed: int = 0) -> Texts:
    """Draw texts: documents of a sentence's length and titles first, then whole documents, then sentences.

    Args:
        documents: The documents.
        most: Texts to draw, both kinds together.
        seed: Of the draw.

    Returns:
        The texts, one in twenty held out, 2,000 at most.

    Raises:
        InputError: There are too few to learn from.
    """
    drawn = random.Random(seed)
    texts: dict[str, None] = {}
    for kind in (_short(documents), (document.whole for document in documents), _sentences(documents)):
        if len(texts) >= most:
            break
        found = [text for text in dict.fromkeys(kind) if text not in texts]
        drawn.shuffle(found)
        texts.update(dict.fromkeys(found[: most - len(texts)]))
    if len(texts) < LEAST_TEXTS:
        raise InputError(
            f"{len(documents)} documents with {len(texts)} sentences are too few to learn from",
            f"give documents with at least {LEAST_TEXTS} sentences of {SHORTEST} characters or more",
        )
    held = min(_MOST_HELD_OUT, int(_HELD_OUT * len(texts)))
    listed = list(texts)
    drawn.shuffle(listed)
    return Texts(listed[held:], listed[:held])


def _short(documents: Iterable[OwnDocument]) -> Iterator[str]:
    for document in documents:
        yield from (text for text in (document.whole, document.title) if SHORTEST <= len(text) <= LONGEST)


def _sentences(documents: Iterable[OwnDocument]) -> Iterator[str]:
    for document in documents:
        for start, stop in sentences_of(document.text):
            if stop - start >= SHORTEST:
                yield document.text[start:stop]
