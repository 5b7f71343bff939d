"""Words of any language: one form of all their spellings, function words, and which language they are of.

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
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.intp]
UNKNOWN = "und"
"""ISO 639's code for an unknown language: plain words."""
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
_WORD = re.compile(r"[^\W\d_]{2,}")
_TOKEN = re.compile(
    r"(?:\w|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u00ad\u200b-\u200d'’])+"
)
# Parts of contractions: it's, we'll, l'eau, qu'il.
_CLITICS = frozenset("s t d m ll re ve l c j n qu".split())


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
def _words(table: str) -> dict[str, frozenset[str]]:
    """Return one of the bundled lists of words by language, as they are or, function words, folded."""
    lists = tomllib.loads((files("sentemb.data") / "bundled" / "words.toml").read_text(encoding="utf-8"))[
        table
    ]
    spell: Callable[[str], str] = fold if table == "function_words" else str
    return {language: frozenset(map(spell, words.split())) for language, words in lists.items()}


def language_of(texts: Iterable[str]) -> str:
    """Detect the language of some texts by their function words; some hundred sentences are plenty.

    The result is the code of the language whose function words are the most frequent; `und` if two have
    the same number, if fewer than 4 % of the words are such (running text has 20 % and more, titles and
    commands less), or if it is none of the eleven known.
    """
    words = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    counts = {
        language: sum(words[word] for word in frequent) for language, frequent in _words("frequent").items()
    }
    second, (most, best) = sorted((count, language) for language, count in counts.items())[-2:]
    return best if most > max(second[0], 0.04 * words.total()) else UNKNOWN


def without_function_words(query: str, language: str) -> str:
    """Remove the function words from a query; return it as it is if it consists of nothing else.

    The language is that of the documents, an ISO 639 code. If its function words are not listed, those of the
    query's own language are removed, provided that the query has at least two of them.
    """
    words = [(match.span(), fold(match[0]).replace("’", "'")) for match in _TOKEN.finditer(query)]
    listed = _words("function_words").get(language) or _listed([word for _, word in words])
    has_lower = any(letter.islower() for letter in query)
    kept, end, has_content = [], 0, False
    for (start, stop), word in words:
        acronym = has_lower and query[start:stop].isupper() and stop - start > 1  # WHO, IT
        rest = query[start:stop] if acronym else _rest(word, listed)
        has_content = has_content or any(letter.isalnum() for letter in rest)
        kept += [query[end:start], rest]
        end = stop
    return "".join([*kept, query[end:]]) if has_content else query


def _rest(word: str, listed: frozenset[str]) -> str:
    """Return what a folded word has besides function words."""
    if word in listed or "'" not in word:
        return "" if word in listed else word
    return " ".join(part for part in word.split("'") if part not in listed and part not in _CLITICS)


def _listed(words: list[str]) -> frozenset[str]:
    """Return the function words of the most frequent language; of several, those that all have."""
    lists = _words("function_words").values()
    counts = [sum(word in listed for word in words) for listed in lists]
    if max(counts) < 2:  # that reveal the language of a query
        return frozenset()
    most = max(counts)
    return frozenset.intersection(
        *(listed for listed, count in zip(lists, counts, strict=True) if count == most)
    )
