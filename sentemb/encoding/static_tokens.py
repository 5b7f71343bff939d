"""The tokens of many texts, a word or a clause at a time, each tokenised once.

A tokenizer normalises a text, cuts it at blanks and signs, and looks each part up. Of a part in plain ASCII
normalising is lower-casing, and a part that came before needs nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace, Punctuation
from tokenizers.pre_tokenizers import Sequence as Steps

BLANK = "▁"
"""What a Unigram model has for a blank; one stands before the first word too."""

CLAUSES = Steps([Punctuation("isolated"), Metaspace(BLANK, "always", split=False)])
"""Leaves the words between two signs together, so that a token may be more than one."""

_SIGNS = r"!-/:-@\[-`{-~"  # ASCII's punctuation, as a range of a regular expression
_WORD = re.compile(rf"[^ {_SIGNS}]+|[{_SIGNS}]")
_SIGN = re.compile(rf"([{_SIGNS}])")

_MOST_BYTES = 1.1  # per character, of a text that is worth cutting
_MOST_KEPT = 1 << 20  # tokens of parts that came before: some forty megabytes


@dataclass(frozen=True)
class _Cut:
    """What a pre-tokenizer does to plain text."""

    parts: Callable[[str], list[str]]
    """The parts of a text, each of which has the same tokens whatever stands beside it."""

    looked_up: Callable[[str], str]
    """A part as the model looks it up."""


def _clause(part: str) -> str:
    return BLANK + part.removeprefix(" ").replace(" ", BLANK) if part else ""


_CUTS = {
    BertPreTokenizer().__getstate__(): _Cut(_WORD.findall, str),
    CLAUSES.__getstate__(): _Cut(_SIGN.split, _clause),
}


class StaticTokens:
    """Token numbers as a tokenizer gives them, sooner.

    Args:
        tokenizer: The tokenizer. It does all itself where it is none of BERT's kind or of those that
            `sentemb distill` makes; where it is one, texts with its special tokens and parts in other
            characters than plain ASCII.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._model = Tokenizer(tokenizer.model)
        self._cut = _cut_of(tokenizer)
        self._lowercase = self._cut is not None and tokenizer.normalizer.lowercase
        added = (token.content for token in tokenizer.get_added_tokens_decoder().values())
        self._special = re.compile("|".join(map(re.escape, added)) or "(?!)")
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The token numbers of each text, without those that a tokenizer puts around it."""
        if self._cut is None:
            return _ids(self._tokenizer, texts)
        special, cut = self._special.search, self._cut.parts
        parts = [
            cut(text.replace("\n", " ")) if _is_mostly_ascii(text) and not special(text) else [text]
            for text in texts
        ]
        if sum(map(len, self._known.values())) > _MOST_KEPT:
            self._known.clear()
        self._learn(set(chain.from_iterable(parts)).difference(self._known), self._cut.looked_up)
        known = self._known.__getitem__
        return [list(chain.from_iterable(map(known, some))) for some in parts]

    def _learn(self, parts: Iterable[str], looked_up: Callable[[str], str]) -> None:
        """Tokenise parts that are new."""
        plain: list[str] = []
        other: list[str] = []
        for part in parts:
            is_plain = part.isascii() and part.isprintable() and not self._special.search(part)
            (plain if is_plain else other).append(part)
        ready = [looked_up(part.lower() if self._lowercase else part) for part in plain]
        self._known.update(zip(plain, _ids(self._model, ready), strict=True))
        self._known.update(zip(other, _ids(self._tokenizer, other), strict=True))


def _cut_of(tokenizer: Tokenizer) -> _Cut | None:
    """How to cut for a tokenizer, where its tokens depend on one part at a time."""
    added = tokenizer.get_added_tokens_decoder().values()
    if (
        not isinstance(tokenizer.model, Unigram | WordPiece)
        or not isinstance(tokenizer.normalizer, BertNormalizer)
        or not tokenizer.normalizer.clean_text  # which makes a new line a blank
        or tokenizer.pre_tokenizer is None
        or tokenizer.truncation is not None
        or tokenizer.padding is not None
        or any(token.normalized or len(token.content.split()) != 1 for token in added)
    ):
        return None
    return _CUTS.get(tokenizer.pre_tokenizer.__getstate__())


def _is_mostly_ascii(text: str) -> bool:
    """Whether cutting a text is worth it: a part beyond ASCII costs as much as a text."""
    return text.isascii() or len(text.encode("utf-8", "replace")) < _MOST_BYTES * len(text)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
