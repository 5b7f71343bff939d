"""Texts to learn the teacher's vectors of, cut from documents."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from sentemb.data.own_documents import OwnDocument, split_documents
from sentemb.data.sentences import sentences_of
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

SHORTEST, LONGEST = 20, 150
"""Characters of a sentence: of short texts, whose vectors have few words, there is most to learn."""
MOST_TEXTS = 200_000
"""Texts that a teacher encodes, at most, where no other number is given."""
LEAST_TEXTS = 500
_HELD_OUT = 0.05
_MOST_HELD_OUT = 2000
_LARGEST_SHARE = 0.25  # of all characters, in documents that are held out


class Texts(NamedTuple):
    """What is learned and what is held out."""

    training: list[str]
    held_out: list[str]


def draw_texts(documents: Sequence[OwnDocument], *, most: int, seed: int = 0) -> Texts:
    """Draw texts: documents of a sentence's length and titles first, then whole documents, then sentences.

    One document in twenty is held out with all its texts, and what is learned has none of the held-out texts.
    Where few or uneven documents would leave too little on either side, texts are held out of all of them.

    Args:
        documents: The documents.
        most: Texts to draw, both kinds together.
        seed: Of the draw.

    Returns:
        The texts, about one in twenty held out, 2,000 at most.

    Raises:
        InputError: There are too few to learn from.

    Example:
        >>> texts = draw_texts(documents, most=10_000)  # doctest: +SKIP
    """
    if (texts := _apart(documents, most, seed)) is not None:
        return texts
    drawn = random.Random(seed)
    pool = _drawn(documents, most, drawn)
    if len(pool) < LEAST_TEXTS:
        raise InputError(
            f"{len(documents)} documents with {len(pool)} sentences are too few for distillation",
            f"pass documents with at least {LEAST_TEXTS} sentences of {SHORTEST} characters or more",
        )
    logger.warning(
        "the documents are too few or too uneven to hold whole ones out: held-out sentences come from "
        "training ones"
    )
    held = min(_MOST_HELD_OUT, int(_HELD_OUT * len(pool)))
    return Texts(pool[held:], pool[:held])


def _apart(documents: Sequence[OwnDocument], most: int, seed: int) -> Texts | None:
    """Hold whole documents out; None where that leaves too little on either side."""
    kept, out = split_documents(documents, share=max(_HELD_OUT, 1 / max(len(documents), 1)), seed=seed)
    if _characters(out) > _LARGEST_SHARE * _characters(documents):
        return None
    drawn = random.Random(seed)
    # As many of a document as of those that are learned, so that both are of the same kinds.
    held = _drawn(out, int(_HELD_OUT * most), drawn)[:_MOST_HELD_OUT]
    training = _drawn(kept, most - len(held), drawn, without=frozenset(held))
    few = len(held) < int(_HELD_OUT * LEAST_TEXTS) or len(held) + len(training) < LEAST_TEXTS
    return None if few else Texts(training, held)


def _drawn(
    documents: Sequence[OwnDocument],
    most: int,
    drawn: random.Random,
    *,
    without: Collection[str] = (),
) -> list[str]:
    """Different texts of the documents, in any order."""
    texts: dict[str, None] = {}
    for kind in (_short(documents), (document.whole for document in documents), _sentences(documents)):
        if len(texts) >= most:
            break
        found = [text for text in dict.fromkeys(kind) if text not in texts and text not in without]
        drawn.shuffle(found)
        texts.update(dict.fromkeys(found[: most - len(texts)]))
    listed = list(texts)
    drawn.shuffle(listed)
    return listed


def _characters(documents: Iterable[OwnDocument]) -> int:
    return sum(len(document.whole) for document in documents)


def _short(documents: Iterable[OwnDocument]) -> Iterator[str]:
    for document in documents:
        yield from (text for text in (document.whole, document.title) if SHORTEST <= len(text) <= LONGEST)


def _sentences(documents: Iterable[OwnDocument]) -> Iterator[str]:
    for document in documents:
        for start, stop in sentences_of(document.text):
            if stop - start >= SHORTEST:
                yield document.text[start:stop]
