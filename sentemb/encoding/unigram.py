"""A Unigram model with tokens of two words, as `sentemb distill` learns it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import Unigram

BLANK = "▁"
"""What a Unigram model has for a blank; one stands before the first word too."""
# Sums of scores that differ by less may be in another order where other words precede, since the tokenizer's
# sums are rounded. The limits on a clause's length and on scores keep its error below this.
NEAR = 1e-5
LONGEST_CLAUSE = 20_000
_LARGEST_SCORE = 100.0

Ids = NDArray[np.int64]
Piece = tuple[float, int]  # score and token id
Segmentation = tuple[float, list[int], bool]  # score, tokens, and whether others are as likely
_ABSENT: Any = ()


class TwoWordModel(NamedTuple):
    """A Unigram model whose tokens are within a word, or cross one blank from the start of a word."""

    pieces: dict[str, Piece | None]  # within a word; None for the beginning of a longer piece
    unknown: Piece
    size: int
    sure: float  # a piece with a higher score is likelier than its parts
    firsts: dict[str, int]  # numbers of first words of crossing tokens
    seconds: dict[str, int]  # and of what they have of the second one
    keys: Ids  # first * len(seconds) + second of crossing tokens, sorted; the last one never occurs
    tokens: Ids
    scores: NDArray[np.float64]

    @classmethod
    def read(cls, model: Unigram) -> TwoWordModel | None:
        """Read a model; return None if it is of any other kind."""
        state = json.loads(model.__getstate__())
        vocabulary = state.pop("vocab")
        pieces = {piece: (float(score), number) for number, (piece, score) in enumerate(vocabulary)}
        expected = {"type": "Unigram", "byte_fallback": False, "unk_id": state.get("unk_id")}
        crossing = {piece: pieces[piece] for piece in pieces if BLANK in piece[1:]}
        if (
            {key: value for key, value in state.items() if value is not None} != expected
            or state["unk_id"] is None
            or len(pieces) != len(vocabulary)
            or "" in pieces
            or BLANK not in pieces
            or any(piece[0] != BLANK or piece.count(BLANK) != 2 for piece in crossing)
            or max(abs(score) for score, _ in pieces.values()) > _LARGEST_SCORE
        ):
            return None
        lowest = min(score for score, _ in pieces.values())
        begins = max(score for piece, (score, _) in pieces.items() if piece[0] == BLANK)
        inner = max((score for piece, (score, _) in pieces.items() if piece[0] != BLANK), default=0.0)
        firsts: dict[str, int] = {}
        seconds: dict[str, int] = {}
        keyed = []
        for piece, (score, number) in crossing.items():
            first, second = piece[1:].split(BLANK)
            places = firsts.setdefault(first, len(firsts)), seconds.setdefault(second, len(seconds))
            keyed.append((*places, number, score))
        keyed.sort()
        within: dict[str, Piece | None] = {piece: of for piece, of in pieces.items() if piece not in crossing}
        for piece in list(within):
            within.update((piece[:end], None) for end in range(1, len(piece)) if piece[:end] not in pieces)
        keys = np.array(
            [*(first * len(seconds) + second for first, second, _, _ in keyed), -1], dtype=np.int64
        )
        return cls(
            pieces=within,
            unknown=(lowest - 10.0, state["unk_id"]),  # as the tokenizer scores a character without a piece
            size=len(pieces),
            sure=max(begins, inner) + inner + NEAR if inner < 0 else np.inf,
            firsts=firsts,
            seconds=seconds,
            keys=keys,
            tokens=np.array([number for _, _, number, _ in keyed], dtype=np.int64),
            scores=np.array([score for *_, score in keyed]),
        )

    def best(self, word: str) -> Segmentation:
        """Return the score and tokens of the likeliest segmentation, and True if it is a near tie.

        Two with the same scores in the same order are not a near tie: their sums are equal in any text, and
        the tokenizer always takes the one with the longer last token.
        """
        get, unknown, length = self.pieces.get, self.unknown, len(word)
        whole = get(word)
        if whole is not None and whole[0] > self.sure:
            return whole[0], [whole[1]], False
        # By the last character of a beginning of the word; the empty beginning is at -1.
        best = [-np.inf] * length + [0.0]
        steps: list[tuple[int, int]] = [(0, 0)] * length  # where its last piece begins, and this one's token
        scores: list[Any] = [None] * (length + 1)  # of its pieces: all but the last one, and the last one
        near = [False] * length
        for begin in range(length):
            before, behind = best[begin - 1], scores[begin - 1]
            for end in range(begin, length):
                piece = get(word[begin : end + 1], _ABSENT)
                if not piece:
                    if end > begin:
                        if piece is None:
                            continue
                        break
                    piece = unknown
                total = before + piece[0]
                if total > best[end] - NEAR and (behind, piece[0]) != scores[end]:
                    near[end] = total <= best[end] + NEAR
                    if total > best[end]:
                        best[end], steps[end], scores[end] = total, (begin, piece[1]), (behind, piece[0])
        return best[length - 1], *self._walk(steps, near)

    def _walk(self, steps: list[tuple[int, int]], near: list[bool]) -> tuple[list[int], bool]:
        """Return the tokens of a segmentation, and whether one of its steps is a near tie."""
        ids: list[int] = []
        is_near, end = False, len(steps) - 1
        while end >= 0:
            is_near |= near[end]
            begin, number = steps[end]
            if not ids or number != self.unknown[1] or ids[-1] != number:  # unknown characters are one token
                ids.append(number)
            end = begin - 1
        return ids[::-1], is_near
