"""Which language texts are in, as far as it decides how they become terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

UNKNOWN = "und"
"""ISO 639's code for a language that is not known: plain words."""

# Frequent words that few of the other languages have.
_WORDS = {
    "en": "the of and to is that with this are it for by from you your how an be which not",
    "de": "der die und das ist nicht ein eine mit den von zu auf dem des sich auch wie werden bei",
    "fr": "le la les des et est un une dans que qui pour pas sur du au avec ce sont par",
    "es": "el la los las es que un una para con por del se como no su al lo más",
    "pt": "os as que um uma para com por do da não se como em no na mais",
    "it": "il lo gli che un una per con di del della non si come in sono al da",
    "nl": "de het een en van is dat niet op te met voor zijn aan er om ook naar bij wordt",
    "sv": "och det att en är som på av för med inte till den har ett jag om var kan från",
    "pl": "na nie się jest do że to jak po dla od przez ale są czy być",
    "tr": "ve bir bu için ile de da ne olarak daha çok gibi olan var kadar en sonra mi değil ya",
    "vi": "là và của có không được một người trong cho các với những này đã để khi từ đến",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _listed in _WORDS.items():
    for _word in _listed.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
_LEAST_SHARE = 0.04  # of all words; running text has 20 % and more, titles and commands less
_WORD = re.compile(r"[^\W\d_]{2,}")


def language_of(texts: Iterable[str]) -> str:
    """The language of some texts, by the function words in them.

    Args:
        texts: The texts; some hundred sentences are plenty.

    Returns:
        The code of the language whose function words are the most frequent; `und` where two have the same
        number, where fewer than 4 % of the words are such, or where it is none of the eleven known.
    """
    counts: Counter[str] = Counter()
    words = 0
    for text in texts:
        found = _WORD.findall(text.lower())
        words += len(found)
        counts.update(language for word in found for language in _LANGUAGES_OF.get(word, ()))
    (best, most), (_, second), *_ = [*counts.most_common(2), (UNKNOWN, 0), (UNKNOWN, 0)]
    return best if most > max(second, _LEAST_SHARE * words) else UNKNOWN
