"""Texts for students to learn from, and their agreement and speed compared with the teacher."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from sentemb.data.documents import Document, split_documents
from sentemb.data.words import sentences_of
from sentemb.encoding import TextEncoder
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.evaluation.environment import time_in_turns

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with a stage, the number done and the total."""

SHORTEST, LONGEST = 20, 150
"""Characters of a sentence. Short texts teach most, since their vectors depend on few words."""
LEAST_TEXTS = 500
_HELD_OUT = 0.05
_MOST_HELD_OUT = 2000
_LARGEST_SHARE = 0.25  # of all characters, in documents that are held out
_NEIGHBOURS = 10
TIMED = 100
"""Texts on which a network is timed."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Report nothing."""


class Texts(NamedTuple):
    """Texts to train on and texts that are held out."""

    training: list[str]
    held_out: list[str]


def draw_texts(documents: Sequence[Document], *, most: int, seed: int = 0) -> Texts:
    """Draw texts: short documents and titles first, then whole documents, then sentences.

    One document in twenty is held out with all its texts, and no held-out text is trained on. If few or
    uneven documents would leave too little on either side, texts of all documents are held out instead.

    Args:
        documents: The documents.
        most: Maximum number of texts, training and held-out together.
        seed: Seed of the draw.

    Returns:
        The texts. About one in twenty is held out, at most 2,000.

    Raises:
        InputError: There are too few texts to learn from.

    Example:
        >>> texts = draw_texts(documents, most=10_000)  # doctest: +SKIP
    """
    if (texts := _hold_out_documents(documents, most, seed)) is not None:
        return texts
    generator = random.Random(seed)
    pool = _draw(documents, most, generator)
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


def _hold_out_documents(documents: Sequence[Document], most: int, seed: int) -> Texts | None:
    """Hold out whole documents; return None if that leaves too little on either side."""
    kept, out = split_documents(documents, share=max(_HELD_OUT, 1 / max(len(documents), 1)), seed=seed)
    held_out, total = (sum(len(document.whole) for document in some) for some in (out, documents))
    if held_out > _LARGEST_SHARE * total:
        return None
    generator = random.Random(seed)
    # The same share of texts as for training, so that both have the same kinds of texts.
    held = _draw(out, int(_HELD_OUT * most), generator)[:_MOST_HELD_OUT]
    training = _draw(kept, most - len(held), generator, without=frozenset(held))
    few = len(held) < int(_HELD_OUT * LEAST_TEXTS) or len(held) + len(training) < LEAST_TEXTS
    return None if few else Texts(training, held)


def _draw(
    documents: Sequence[Document],
    most: int,
    generator: random.Random,
    *,
    without: Collection[str] = (),
) -> list[str]:
    """Draw distinct texts of the documents, in random order."""
    texts: dict[str, None] = {}
    for kind in (_short(documents), (document.whole for document in documents), _sentences(documents)):
        if len(texts) >= most:
            break
        found = [text for text in dict.fromkeys(kind) if text not in texts and text not in without]
        generator.shuffle(found)
        texts.update(dict.fromkeys(found[: most - len(texts)]))
    listed = list(texts)
    generator.shuffle(listed)
    return listed


def _short(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        yield from (text for text in (document.whole, document.title) if SHORTEST <= len(text) <= LONGEST)


def _sentences(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        for start, stop in sentences_of(document.text):
            if stop - start >= SHORTEST:
                yield document.text[start:stop]


class Agreement(NamedTuple):
    """Agreement of a student with its teacher on held-out texts.

    Attributes:
        cosine: Mean cosine between both vectors of a text, in the student's dimensions.
        similarities: Spearman's correlation of the similarities of pairs of texts, half of them neighbours.
    """

    cosine: float
    similarities: float


def measure_agreement(vectors: Vectors, targets: Vectors) -> Agreement:
    """Compare a student's vectors of some texts with the teacher's; both have length 1."""
    wanted = targets @ targets.T
    np.fill_diagonal(wanted, -np.inf)
    nearest = np.argpartition(-wanted, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    others = np.random.default_rng(0).integers(0, len(vectors), nearest.shape)
    columns = np.concatenate([nearest, others], axis=1)
    rows = np.repeat(np.arange(len(vectors))[:, None], columns.shape[1], axis=1)
    kept = rows != columns
    got = (vectors @ vectors.T)[rows[kept], columns[kept]]
    return Agreement(
        float((vectors * targets).sum(axis=1).mean()),
        float(spearmanr(got, wanted[rows[kept], columns[kept]]).statistic),
    )


class Speed(NamedTuple):
    """Texts per second of student and teacher on this machine."""

    student: float
    teacher: float

    @property
    def ratio(self) -> float:
        """Speed of the student divided by that of its teacher."""
        return self.student / self.teacher


def measure_speed(student: TextEncoder, teacher: TextEncoder, texts: Sequence[str]) -> Speed:
    """Time both, interleaved: the student on all texts, the teacher on the first hundred."""
    few = list(texts[:TIMED])
    actions = {"student": lambda: student.encode(texts), "teacher": lambda: teacher.encode(few)}
    took = time_in_turns(actions, rounds=3, warm_up=1)
    return Speed(len(texts) / min(took["student"]), len(few) / min(took["teacher"]))
