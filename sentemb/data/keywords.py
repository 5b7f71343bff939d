"""The rules by which texts of a language become terms of SQLite's full-text index (FTS5)."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from sentemb.data.language import Places, fold, folded_places, without_function_words

# Thai, Lao, Khmer and Burmese, then Han and kana: scripts without spaces between words. No punctuation.
_ALPHABETS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17d7\u17dc-\u17e9"
    "\ua9e0-\ua9ff\uaa60-\uaa7f"
)
_CJK = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003fffd"
)
UNSPACED = _ALPHABETS + _CJK
# Korean words have spaces around them, but particles are part of them.
_SYLLABLES = f"{_CJK}\uac00-\ud7a3"
_RUN = re.compile(f"[{_SYLLABLES}]+|[{_ALPHABETS}]+")
_SYLLABLE = re.compile(f"[{_SYLLABLES}]")

RULES = 2
"""The number of the rules by which texts become terms; an index of other rules finds other words."""
SUPPORT = 0.4
"""The weight of function words in a query; documents that have no other word of it are not found."""
K1, B = 1.2, 0.75
"""The constants of BM25 in SQLite, and in most systems."""
STEMMER = "porter "


def tokenizer(language: str) -> str:
    """Return the tokenizer of FTS5 for a language.

    English has Porter's stemmer, all others have plain words, without diacritics except for Vietnamese.
    """
    # Vowel signs of Indic scripts are marks, which FTS5 takes for separators by default.
    words = f"unicode61 remove_diacritics {0 if language == 'vi' else 2} categories 'L* N* Co M*'"
    return f"{STEMMER}{words}" if language == "en" else words


def document_text(text: str) -> str:
    """Return the folded text of a document, as the full-text index takes it.

    Runs of a script without spaces, and Korean words, become pairs of characters; those of Chinese, Japanese
    and Korean become single characters too, so that queries of one character find them.
    """
    return _RUN.sub(lambda run: _spell(run[0], _document_spans(run[0])), fold(text))


def query_texts(text: str, language: str) -> tuple[str, str]:
    """Return a folded query without its function words, and the whole; runs without spaces in pairs."""
    content, whole = (
        _RUN.sub(lambda run: _spell(run[0], _pairs(run[0])), fold(part))
        for part in (without_function_words(text, language), text)
    )
    return content, whole


def document_places(text: str) -> tuple[Places, Places]:
    """Return where each character of `document_text(text)` comes from: starts and ends in the text."""
    folded = fold(text)
    pieces, last = [], 0
    for run in _RUN.finditer(folded):
        start, stop = run.span()
        pieces.append(np.arange(last, start))
        # A space before each term, and one at the end.
        pieces += [start + np.array([begin, *range(begin, end)]) for begin, end in _document_spans(run[0])]
        pieces.append(np.array([stop - 1]))
        last = stop
    places = np.concatenate([*pieces, np.arange(last, len(folded))])
    starts, stops = folded_places(text)
    return starts[places], stops[places]


def _pairs(run: str) -> list[tuple[int, int]]:
    """Return the spans of the pairs of a run; a single character is one."""
    return [(place, place + 2) for place in range(len(run) - 1)] or [(0, 1)]


def _document_spans(run: str) -> list[tuple[int, int]]:
    """Return the spans of the terms of a run, in their order."""
    if not _SYLLABLE.match(run):
        return _pairs(run)
    size = len(run)
    return [(place, end) for place in range(size) for end in (place + 2, place + 1) if end <= size]


def _spell(run: str, spans: list[tuple[int, int]]) -> str:
    return f" {' '.join(run[start:stop] for start, stop in spans)} "


def bm25_idf(documents: int, holding: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the weight of a term by how many of the documents have it; as in SQLite at least 1e-6."""
    holding = np.asarray(holding)
    return np.maximum(np.log((documents - holding + 0.5) / (holding + 0.5)), 1e-6)


def varints(data: bytes) -> npt.NDArray[np.int64]:
    """Decode SQLite's integers of varying length: seven bits a byte, highest first, the last below 128."""
    found = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(found < 128)
    widths = np.diff(ends, prepend=-1)
    values = np.zeros(len(ends), dtype=np.int64)
    for back in range(int(widths.max(initial=0))):
        longer = widths > back
        values[longer] += (found[ends[longer] - back] & 127) << 7 * back
    return values
