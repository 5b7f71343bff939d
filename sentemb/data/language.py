"""The language of texts, as far as it determines how they become terms."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

UNKNOWN = "und"
"""ISO 639's code for an unknown language: plain words."""
_LEAST_SHARE = 0.04  # of all words; running text has 20 % and more, titles and commands less
_WORD = re.compile(r"[^\W\d_]{2,}")


def read_words(table: str) -> dict[str, list[str]]:
    """Read one of the bundled lists of words by language."""
    text = (files("sentemb.data") / "bundled" / "words.toml").read_text(encoding="utf-8")
    return {language: words.split() for language, words in tomllib.loads(text)[table].items()}


@cache
def _languages_of() -> dict[str, list[str]]:
    """Return the languages in which a word is frequent."""
    found: dict[str, list[str]] = {}
    for language, words in read_words("frequent").items():
        for word in words:
            found.setdefault(word, []).append(language)
    return found


def language_of(texts: Iterable[str]) -> str:
    """Detect the language of some texts by their function words; some hundred sentences are plenty.

    Returns:
        The code of the language whose function words are the most frequent; `und` if two have the same
        number, if fewer than 4 % of the words are such, or if it is none of the eleven known.
    """
    counts: Counter[str] = Counter()
    words = 0
    for text in texts:
        found = _WORD.findall(text.lower())
        words += len(found)
        counts.update(language for word in found for language in _languages_of().get(word, ()))
    (best, most), (_, second), *_ = [*counts.most_common(2), (UNKNOWN, 0), (UNKNOWN, 0)]
    return best if most > max(second, _LEAST_SHARE * words) else UNKNOWN
