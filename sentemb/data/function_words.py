"""Function words, which do not say what a question is about, and which alone do not find a document."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from sentemb.data.folding import fold
from sentemb.data.language import read_words

# Parts of contractions: it's, we'll, l'eau, qu'il.
_CLITICS = frozenset("s t d m ll re ve l c j n qu".split())
_WORD = re.compile(
    r"(?:\w|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u00ad\u200b-\u200d'’])+"
)
_LEAST = 2  # function words that reveal the language of a query


@cache
def _function_words() -> dict[str, frozenset[str]]:
    return {
        language: frozenset(map(fold, listed)) for language, listed in read_words("function_words").items()
    }


def without_function_words(query: str, language: str) -> str:
    """Remove the function words from a query; return it as it is if it consists of nothing else.

    The language is that of the documents, an ISO 639 code. If its function words are not listed, those of the
    query's own language are removed, provided that the query has at least two of them.
    """
    words = [(match.span(), fold(match[0]).replace("’", "'")) for match in _WORD.finditer(query)]
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
