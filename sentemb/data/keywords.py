"""How texts of a language become the terms of keyword search, in SQLite's full-text index (FTS5)."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt

# Han, kana, Thai, Lao, Khmer and Burmese are written without spaces between words.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{UNSPACED}]+")
# Vowel signs of Indic scripts are marks, which FTS5 takes for separators by default.
_WORDS = "unicode61 remove_diacritics {} categories 'L* N* Co M*'"
_DIACRITICS_TELL_WORDS_APART = ("vi",)

K1, B = 1.2, 0.75
"""The constants of BM25 in SQLite, and in most systems."""
_LEAST_IDF = 1e-6  # SQLite's, of terms that most documents have


def tokenizer(language: str) -> str:
    """The tokenizer of FTS5 for a language.

    Args:
        language: Its code, such as `en` or `zh`.

    Returns:
        Porter's stemmer for English; for others plain words, without their diacritics but for Vietnamese.
    """
    if language == "en":
        return "porter unicode61"
    return _WORDS.format(0 if language in _DIACRITICS_TELL_WORDS_APART else 2)


def with_bigrams(text: str) -> str:
    """A text whose runs of a script without spaces are cut to pairs of characters; other text stays as it is.

    Args:
        text: Any text.

    Returns:
        The text, with spaces around each pair: three characters become two pairs, one stays alone.
    """
    return _RUN.sub(lambda run: f" {' '.join(map(''.join, pairwise(run[0]))) or run[0]} ", text)


def bigram_places(text: str) -> npt.NDArray[np.intp]:
    """Where each character of `with_bigrams(text)` comes from in the text; spaces from a neighbour."""
    pieces, end = [], 0
    for run in _RUN.finditer(text):
        start, stop = run.span()
        pieces.append(np.arange(end, start))
        # Of each pair the space before it and its two characters, and the space at the end.
        firsts = np.arange(start, max(stop - 1, start + 1))
        letters = np.arange(min(stop - start, 2))
        cut = firsts[:, None] + np.concatenate([[0], letters])
        pieces += [cut.ravel(), np.array([stop - 1])]
        end = stop
    return np.concatenate([*pieces, np.arange(end, len(text))])


def bm25_idf(documents: int, holding: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """What having a term is worth, by how many of the documents have it; as in SQLite never below 1e-6."""
    holding = np.asarray(holding)
    return np.maximum(np.log((documents - holding + 0.5) / (holding + 0.5)), _LEAST_IDF)


def varints(data: bytes) -> npt.NDArray[np.int64]:
    """SQLite's integers of varying length: seven bits a byte, the highest first, the last below 128.

    Args:
        data: Any number of them.

    Returns:
        The integers.
    """
    found = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(found < 128)
    widths = np.diff(ends, prepend=-1)
    values = np.zeros(len(ends), dtype=np.int64)
    for back in range(int(widths.max(initial=0))):
        longer = widths > back
        values[longer] += (found[ends[longer] - back] & 127) << 7 * back
    return values
