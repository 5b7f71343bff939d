"""Where the sentences of a text end."""

from __future__ import annotations

import regex

SENTENCE_END = r"""
    \n[^\S\n]*+\n\s*+ | [\x85\u2028\u2029]\s*+
  | [\p{SB=STerm}--[!?]]++ \p{SB=STerm}*+ [\p{Pe}\p{Pf}"'»]*+ \s*+
  | (?<![!?…])[!?…]++ [\p{Pe}\p{Pf}"'»]*+ \s++
  | (?<!\.|\b(?:\p{Lu}|Dr|Mrs?|Ms|Prof|St|Fig|Eq|No|vs|al|cf|e\.g|i\.e))
    \.++ [\p{Pe}\p{Pf}"'»]*+ \s++ (?!\p{Ll})
"""
"""A verbose regular expression after Unicode's rules (UAX #29): at an empty line; after the marks of scripts
that write no space after them, and after others where a space follows; after a full stop where no small
letter follows and no initial or title is before."""

_END = regex.compile(f"{SENTENCE_END} | \\n\\s*+", regex.VERBOSE | regex.VERSION1)


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end, without the blanks around them; a line ends one too."""
    ends = [match.end() for match in _END.finditer(text)]
    found = []
    for start, stop in zip([0, *ends], [*ends, len(text)], strict=True):
        piece = text[start:stop]
        if kept := piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            found.append((first, first + len(kept)))
    return found
