"""One form of all spellings of a text, for comparing words: documents and queries are folded alike.

It is Unicode's NFKC with case folding, in which `ﬁ` is `fi`, `ß` is `ss`, and composed letters equal
decomposed ones. Folding also drops what readers do not see or may leave out: soft hyphens, joiners, Hebrew
points, Arabic vowel marks and tatweel, Greek accents. Digits of all scripts become ASCII. Other accents stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.intp]

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


class _Table(dict[int, str]):
    """A table for `str.translate` that computes the entry of a character when it is first needed."""

    def __init__(self, compute: Callable[[str], str]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, code: int) -> str:
        self[code] = value = self._compute(chr(code))
        return value


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


def _joins(letter: str) -> str:
    """Return "+" for a character that may merge with the one before it, " " for a space, else "-"."""
    if letter.isspace():
        return " "
    category = unicodedata.category(letter)
    first = unicodedata.normalize("NFKD", letter)[0]
    joined = category == "Cf" or _IGNORED.match(letter) or _JAMO.match(first)
    return "+" if joined or unicodedata.category(first)[0] == "M" else "-"


_FOLDED = _Table(_fold_letter)
_JOINS = _Table(_joins)


def fold(text: str) -> str:
    """Return the form that a text shares with all other spellings of the same words."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).translate(_FOLDED))


def folded_places(text: str) -> tuple[Places, Places]:
    """Return where the source of each character of `fold(text)` starts and ends in the text."""
    if text.isascii():
        places = np.arange(len(text), dtype=np.intp)
        return places, places + 1
    kinds = np.frombuffer(text.translate(_JOINS).encode("ascii"), dtype=np.uint8)
    joins = (kinds[1:] == ord("+")) & (kinds[:-1] != ord(" "))
    starts = np.flatnonzero(np.append(True, ~joins))
    stops = np.append(starts[1:], len(text))
    pieces = (text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True))
    lengths = [len(_FOLDED[ord(piece)] if len(piece) == 1 else fold(piece)) for piece in pieces]
    return np.repeat(starts, lengths), np.repeat(stops, lengths)
