"""The language of texts, as far as it determines their terms, and function words.

Function words do not say what a question is about, and alone do not find a document.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from sentemb.data.folding import fold

UNKNOWN = "und"
"""ISO 639's code for an unknown language: plain words."""
_LEAST_SHARE = 0.04  # of all words; running text has 20 % and more, titles and commands less
_WORD = re.compile(r"[^\W\d_]{2,}")


def _read_words(table: str) -> dict[str, list[str]]:
    """Read one of the bundled lists of words by language."""
    text = (files("sentemb.data") / "bundled" / "words.toml").read_text(encoding="utf-8")
    return {language: words.split() for language, words in tomllib.loads(text)[table].items()}


@cache
def _languages_of() -> dict[str, list[str]]:
    """Return the languages in which a word is frequent."""
    found: dict[str, list[str]] = {}
    for language, words in _read_words("frequent").items():
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


# Parts of contractions: it's, we'll, l'eau, qu'il.
_CLITICS = frozenset("s t d m ll re ve l c j n qu".split())
_TOKEN = re.compile(
    r"(?:\w|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u00ad\u200b-\u200d'’])+"
)
_LEAST = 2  # function words that reveal the language of a query


@cache
def _function_words() -> dict[str, frozenset[str]]:
    return {
        language: frozenset(map(fold, listed)) for language, listed in _read_words("function_words").items()
    }


def without_function_words(query: str, language: str) -> str:
    """Remove the function words from a query; return it as it is if it consists of nothing else.

    The language is that of the documents, an ISO 639 code. If its function words are not listed, those of the
    query's own language are removed, provided that the query has at least two of them.
    """
    words = [(match.span(), fold(match[0]).replace("’", "'")) for match in _TOKEN.finditer(query)]
    listed = _function_words().get(language) or _listed([word for _, word in words])
    has_lower = any(letter.islower() for letter in query)
    kept, end, has_content = [], 0, False
    for (start, stop), word in words:
        kept.append(query[end:start])
        end = stop
        acronym = has_lower and query[start:stop].isupper() and stop - start > 1  # WHO, IT
        rest = query[start:stop] if acronym else _rest(word, listed)
        has_content = has_content or any(letter.isalnum() for letter in rest)
        kept.append(rest)
    return "".join([*kept, query[end:]]) if has_content else query


def _rest(word: str, listed: frozenset[str]) -> str:
    """Return what a folded word has besides function words."""
    if word in listed:
        return ""
    parts = word.split("'")
    if len(parts) == 1:
        return word
    return " ".join(part for part in parts if part not in listed and part not in _CLITICS)


def _listed(words: list[str]) -> frozenset[str]:
    """Return the function words of the most frequent language; of several, those that all have."""
    counts = Counter(
        language for language, listed in _function_words().items() for word in words if word in listed
    )
    most = max(counts.values(), default=0)
    if most < _LEAST:
        return frozenset()
    return frozenset.intersection(*(_function_words()[one] for one, count in counts.items() if count == most))
