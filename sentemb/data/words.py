"""Words of any language: one form of all their spellings, function words, terms of keyword search, sentences.

Folding is Unicode's NFKC with case folding, in which `ﬁ` is `fi`, `ß` is `ss`, and composed letters equal
decomposed ones. It also drops what readers do not see or may leave out: soft hyphens, joiners, Hebrew points,
Arabic vowel marks and tatweel, Greek accents. Digits of all scripts become ASCII. Other accents stay.
Function words do not say what a question is about, and alone do not find a document.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import regex

Places = npt.NDArray[np.intp]
UNKNOWN = "und"
"""ISO 639's code for an unknown language: plain words."""
RULES = 2
"""The number of the rules by which texts become terms; an index of other rules finds other words."""
STEMMER = "porter "

# Unicode's "default ignorable" characters outside the category Cf, which is dropped as a whole.
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Hebrew points and accents; Arabic vowel marks and Quranic signs, but not hamza and madda; tatweel.
_OPTIONAL = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08e1\u08e3-\u08ff]"
)
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
# Capitals are written without them: grave, acute, breathings, circumflex.
_GREEK_ACCENTS = re.compile("[\u0300\u0301\u0313\u0314\u0342]")
# Letters that many writers replace with another, in Turkish, Russian, Arabic and Persian.
_SAME = str.maketrans({"ı": "i", "ё": "е", "ى": "ي", "ی": "ي", "ک": "ك"})
_FRACTION = "\u2044"
# Conjoining vowels and finals of Hangul.
_JAMO = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb]")
_TOKEN = re.compile(
    r"(?:\w|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u00ad\u200b-\u200d'’])+"
)
# Parts of contractions: it's, we'll, l'eau, qu'il.
_CLITICS = frozenset("s t d m ll re ve l c j n qu".split())
# Thai, Lao, Khmer and Burmese, then Han and kana: scripts without spaces between words. No punctuation.
_ALPHABETS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17d7\u17dc-\u17e9"
    "\ua9e0-\ua9ff\uaa60-\uaa7f"
)
_CJK = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003fffd"
)
_UNSPACED = _ALPHABETS + _CJK
# Korean words have spaces around them, but particles are part of them.
_SYLLABLES = f"{_CJK}\uac00-\ud7a3"
_RUN = re.compile(f"[{_SYLLABLES}]+|[{_ALPHABETS}]+")
_SYLLABLE = re.compile(f"[{_SYLLABLES}]")
# A word: up to three characters in scripts without spaces.
_WORD = re.compile(f"[{_UNSPACED}]{{1,3}}|[^\\s{_UNSPACED}]+")

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

_COMMON = 1.5  # idf that a rare word must exceed: less than about a fifth of the texts have it
_END = regex.compile(f"{SENTENCE_END} | \\n\\s*+", regex.VERBOSE | regex.VERSION1)


@cache
def _fold_letter(letter: str) -> str:
    """Fold one composed character."""
    category = unicodedata.category(letter)
    if category == "Cf" or _IGNORED.match(letter):
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(letter))
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", letter).casefold())
    if _GREEK.match(letter):
        parts = _GREEK_ACCENTS.sub("", parts)
    parts = _OPTIONAL.sub("", parts).replace("i\u0307", "i")  # İ
    folded = unicodedata.normalize("NFC", parts).translate(_SAME)
    if folded.startswith(" "):  # an accent that stands alone
        return folded.strip() if category[0] in "LM" else " "
    # Symbols separate words, also where they become letters: ™ is not the end of a name.
    apart = category[0] == "S" and folded != letter and re.match("[a-z0-9]", folded)
    return f" {folded} ".replace(_FRACTION, " ") if apart or _FRACTION in folded else folded


@cache
def _joins(letter: str) -> str:
    """Return "+" for a character that may merge with the one before it, " " for a space, else "-"."""
    if letter.isspace():
        return " "
    first = unicodedata.normalize("NFKD", letter)[0]
    ignored = unicodedata.category(letter) == "Cf" or _IGNORED.match(letter)
    return "+" if ignored or _JAMO.match(first) or unicodedata.category(first)[0] == "M" else "-"


def fold(text: str) -> str:
    """Return the form that a text shares with all other spellings of the same words."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", "".join(map(_fold_letter, unicodedata.normalize("NFC", text))))


def folded_places(text: str) -> tuple[Places, Places]:
    """Return where the source of each character of `fold(text)` starts and ends in the text."""
    if text.isascii():
        places = np.arange(len(text), dtype=np.intp)
        return places, places + 1
    kinds = np.frombuffer("".join(map(_joins, text)).encode("ascii"), dtype=np.uint8)
    joins = (kinds[1:] == ord("+")) & (kinds[:-1] != ord(" "))
    starts = np.flatnonzero(np.append(True, ~joins))
    stops = np.append(starts[1:], len(text))
    pieces = (text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))
    lengths = [len(_fold_letter(piece) if len(piece) == 1 else fold(piece)) for piece in pieces]
    return np.repeat(starts, lengths), np.repeat(stops, lengths)


@cache
def _lists(table: str) -> dict[str, frozenset[str]]:
    """Return one of the bundled lists of words by language, as they are or, function words, folded."""
    path = files("sentemb.data") / "bundled" / "words.toml"
    lists = tomllib.loads(path.read_text(encoding="utf-8"))[table].items()
    is_folded = table == "function_words"
    return {language: frozenset(map(fold if is_folded else str, words.split())) for language, words in lists}


def language_of(texts: Iterable[str]) -> str:
    """Detect the language of some texts by their function words; some hundred sentences are plenty.

    It is `und` if two languages have the same number, or if fewer than 4 % of the words are such (running
    text has 20 % and more, titles and commands less).
    """
    words = Counter(word for text in texts for word in re.findall(r"[^\W\d_]{2,}", text.lower()))
    counts = (
        (sum(words[word] for word in known), language) for language, known in _lists("frequent").items()
    )
    second, (most, best) = sorted(counts)[-2:]
    return best if most > max(second[0], 0.04 * words.total()) else UNKNOWN


def without_function_words(query: str, language: str) -> str:
    """Remove the function words from a query; return it as it is if it consists of nothing else.

    The language is that of the documents, an ISO 639 code. If its function words are not listed, those of the
    query's own language are removed, provided that the query has at least two of them.
    """
    words = [(match.span(), fold(match[0]).replace("’", "'")) for match in _TOKEN.finditer(query)]
    listed = _lists("function_words").get(language) or _listed([word for _, word in words])
    has_lower = any(letter.islower() for letter in query)
    kept, end, has_content = [], 0, False
    for (start, stop), word in words:
        if has_lower and query[start:stop].isupper() and stop - start > 1:  # an acronym: WHO, IT
            rest = query[start:stop]
        elif word in listed:
            rest = ""
        elif "'" in word:
            rest = " ".join(part for part in word.split("'") if part not in listed and part not in _CLITICS)
        else:
            rest = word
        has_content = has_content or any(letter.isalnum() for letter in rest)
        kept += [query[end:start], rest]
        end = stop
    return "".join([*kept, query[end:]]) if has_content else query


def _listed(words: list[str]) -> frozenset[str]:
    """Return the function words of the most frequent language; of several, those that all have."""
    counts = [(sum(word in listed for word in words), listed) for listed in _lists("function_words").values()]
    most = max(count for count, _ in counts)
    if most < 2:  # that reveal the language of a query
        return frozenset()
    return frozenset.intersection(*(listed for count, listed in counts if count == most))


def tokenizer(language: str) -> str:
    """Return the tokenizer of FTS5: with Porter's stemmer for English, with diacritics for Vietnamese."""
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
