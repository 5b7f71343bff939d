"""Splitting a long text into passages that a model reads whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from sentemb.data.words import SENTENCE_END
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding.tokens import Tokens

# Where a small letter follows, it may have been the end all the same.
_CLAUSE = r"""(?<![.!?;:…])[.!?;:…]++ [\p{Pe}\p{Pf}"'»]*+ \s++"""
# What belongs to the character before it stays with it.
_NO_MARK = r"(?![\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}])"
# The ends of ever smaller pieces. What is too long for the model is split into the next smaller ones; a
# character that is written with several code points falls apart last.
_ENDS = [
    regex.compile(end, regex.VERBOSE | regex.VERSION1)
    for end in (
        *(f"(?:{end}) {_NO_MARK}" for end in (SENTENCE_END, _CLAUSE, r"\n\s*+", r"\s++")),
        r"\X",
        r"(?s:.)",
    )
]


class Span(NamedTuple):
    """A part of a text: `text[start:stop]`."""

    start: int
    stop: int


class _Piece(NamedTuple):
    start: int
    stop: int
    tokens: int


def split(text: str, tokens: Tokens, overlap: float) -> list[Span]:
    """Split a text into passages of no more tokens than the model reads.

    Sentences are packed into as few passages as they need, which are then made as even as can be. A sentence
    that is too long for one passage is split between clauses, lines or words, a word between characters.

    Args:
        text: The text, not blank.
        tokens: Counts the tokens.
        overlap: How many tokens of a passage may be repeated in the next one, as a share of the model's
            length, in whole sentences; of a sentence that was split in whole clauses, lines or words.

    Returns:
        The passages in their order, without blanks around them; together they hold all that is not blank.

    Raises:
        InputError: One character has more tokens than the model reads.
    """
    starts = tokens.starts(text)
    room = tokens.room
    while room >= 1:
        pieces = list(_pieces(text, starts, 0, len(text), room, 0))
        spans = []
        for start, stop in _pack(pieces, room, int(overlap * room)):
            part = text[start:stop]
            start += len(part) - len(part.lstrip())
            if part := part.strip():
                spans.append(Span(start, start + len(part)))
        # By itself a passage may have a token more than in its place.
        longest = int(tokens.lengths([text[start:stop] for start, stop in spans]).max())
        if longest <= tokens.room:
            return spans
        room = min(room - 1, room * tokens.room // longest)
    raise InputError(
        f"the model's maximum length of {tokens.room} tokens is too short for a single character",
        "raise the maximum length, or truncate texts with truncate='warn' (--truncate warn)",
    )


def _pieces(
    text: str, starts: NDArray[np.int64], start: int, stop: int, room: int, level: int
) -> Iterator[_Piece]:
    """Yield pieces of the text that have room, each as large as a sentence at most."""
    ends = [match.end() for match in _ENDS[level].finditer(text, start, stop)]
    bounds = np.array([start, *(end for end in ends if end < stop), stop], dtype=np.int64)
    counts = np.diff(np.searchsorted(starts, bounds))
    for first, last, count in zip(bounds[:-1].tolist(), bounds[1:].tolist(), counts.tolist(), strict=True):
        if count <= room or level == len(_ENDS) - 1:
            yield _Piece(first, last, count)
        else:
            yield from _pieces(text, starts, first, last, room, level + 1)


def _pack(pieces: Sequence[_Piece], room: int, overlap: int) -> list[Span]:
    """Join pieces to passages: as few as the room allows, and then as even as can be."""
    least, most = 1, room
    fewest = len(_fill(pieces, room, overlap))
    while least < most:
        middle = (least + most) // 2
        if len(_fill(pieces, middle, overlap)) <= fewest:
            most = middle
        else:
            least = middle + 1
    return _fill(pieces, most, overlap)


def _fill(pieces: Sequence[_Piece], room: int, overlap: int) -> list[Span]:
    """Fill passages with the pieces that fit, beginning with the last ones of the passage before."""
    spans: list[Span] = []
    first, taken = 0, 0  # of the passage that is being filled: its first piece, and its tokens
    for place, piece in enumerate(pieces):
        if place > first and taken + piece.tokens > room:
            spans.append(Span(pieces[first].start, pieces[place - 1].stop))
            kept = min(overlap, room - piece.tokens)
            earlier, first, taken = first, place, 0
            while first - 1 > earlier and taken + pieces[first - 1].tokens <= kept:
                first -= 1
                taken += pieces[first].tokens
        taken += piece.tokens
    return [*spans, Span(pieces[first].start, pieces[-1].stop)]
