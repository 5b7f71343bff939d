"""Words of a text, what is left where some are cut out, and which of them tell texts apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from sentemb.data.keywords import UNSPACED

_WORD = re.compile(f"[{UNSPACED}]{{1,3}}|[^\\s{UNSPACED}]+")
_MARKS = ".,;:()[]{}<>\"'`?!"
_COMMON = 1.5  # what a word's idf must exceed to tell texts apart: it is in less than about a fifth of them


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end; in scripts without spaces up to three characters are one."""
    return [word.span() for word in _WORD.finditer(text)]


def bare(word: str) -> str:
    """A word without the punctuation around it."""
    return word.strip(_MARKS)


def without(text: str, start: int, stop: int) -> str:
    """A text without a part of it."""
    return f"{text[:start].rstrip()} {text[stop:].lstrip()}".strip()


class TellingWords:
    """How much each word of some texts tells which of them it is from.

    Args:
        texts: The texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._total = 0
        self._holding: Counter[str] = Counter()
        for text in texts:
            self._total += 1
            self._holding.update({bare(word).casefold() for word in _WORD.findall(text)})

    def weight(self, word: str) -> float:
        """Its idf above that of common words; 0 of these, of single characters and of what no text has."""
        holding = self._holding[bare(word).casefold()]
        if len(word) < 2 or not holding:
            return 0.0
        return max(0.0, float(np.log(self._total / holding)) - _COMMON)
