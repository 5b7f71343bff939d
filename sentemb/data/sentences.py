"""Words and sentences of a text: where they are, what remains without some, and which words are rare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import regex

from sentemb.data.keywords import UNSPACED

SENTENCE_END = r"""
    \n[^\S\n]*+\n\s*+ | [\x85\u2028\u2029]\s*+
  | [\p{SB=STerm}--[!?]]++ \p{SB=STerm}*+ [\p{Pe}\p{Pf}"'»]*+ \s*+
  | (?<![!?…])[!?…]++ [\p{Pe}\p{Pf}"'»]*+ \s++
  | (?<!\.|\b(?:\p{Lu}|Dr|Mrs?|Ms|Prof|St|Fig|Eq|No|vs|al|cf|e\.g|i\.e))
    \.++ [\p{Pe}\p{Pf}"'»]*+ \s++ (?!\p{Ll})
"""
"""Verbose regular expression after Unicode's rules (UAX #29): at an empty line; after the marks of scripts
that write no space after them, and after others before a space; after a full stop that neither precedes a
small letter nor follows an initial or a title."""

_WORD = re.compile(f"[{UNSPACED}]{{1,3}}|[^\\s{UNSPACED}]+")
_COMMON = 1.5  # idf that a rare word must exceed: less than about a fifth of the texts have it
_END = regex.compile(f"{SENTENCE_END} | \\n\\s*+", regex.VERBOSE | regex.VERSION1)


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a text, without the spaces around them; a line also ends one."""
    ends = [match.end() for match in _END.finditer(text)]
    found = []
    for start, stop in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:stop]
        if kept := piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            found.append((first, first + len(kept)))
    return found


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the words of a text: up to three characters in scripts without spaces."""
    return [word.span() for word in _WORD.finditer(text)]


def strip_punctuation(word: str) -> str:
    """Return a word without the punctuation around it."""
    return word.strip(".,;:()[]{}<>\"'`?!")


def remove_span(text: str, start: int, stop: int) -> str:
    """Return a text without a part of it."""
    return f"{text[:start].rstrip()} {text[stop:].lstrip()}".strip()


class IdfWeights:
    """Weights of the words of some texts by their rarity."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._total = 0
        self._holding: Counter[str] = Counter()
        for text in texts:
            self._total += 1
            self._holding.update({strip_punctuation(word).casefold() for word in _WORD.findall(text)})

    def weight(self, word: str) -> float:
        """Return a word's idf above that of common words; 0 for single characters and unknown words."""
        holding = self._holding[strip_punctuation(word).casefold()]
        if len(word) < 2 or not holding:
            return 0.0
        return max(0.0, float(np.log(self._total / holding)) - _COMMON)
