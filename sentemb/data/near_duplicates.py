"""Texts that a stream has too: the same, nearly the same, or inside longer ones.

Two texts of n and m words, of which L stand in both in the same order, are as near as 2 L / (n + m). At
nearness t they share at least t n / (2 - t) words, so that one of the n - t n / (2 - t) + 1 rarest words of
the one is among those of the other (prefix filtering; Chaudhuri et al., ICDE 2006): a text is compared with
the few that share a rare word with it, and none that is near is missed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

How = Literal["exact", "inside", "near"]
INSIDE_WORDS = 6
"""Texts of fewer words occur inside longer ones by chance."""
# Chinese and Japanese are written without spaces: each character is a word. Elsewhere a run of letters and
# digits is one, so that punctuation and tokenization do not tell two texts apart.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
)
_ROUNDING = 1e-9


class Match(NamedTuple):
    """A text that was looked for, and how it was found: `inside` a longer one, all its words in a row."""

    number: int
    how: How
    nearness: float


def fold(text: str) -> str:
    """The canonical form of a text: without letter case, white space and Unicode variants."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class NearTexts:
    """Folded texts to look for, none twice; `nearness` above 0.5 and at most 1."""

    def __init__(self, texts: Sequence[str], *, nearness: float = 0.9) -> None:
        self.nearness = nearness
        self._numbers = {text: number for number, text in enumerate(texts)}
        words = [_WORD.findall(text) for text in texts]
        counts = Counter(word for one in words for word in _told_apart(one))
        # Rarer words have lower numbers.
        rarest = sorted(counts, key=lambda word: (counts[word], word))
        self._rank = {word: rank for rank, word in enumerate(rarest)}
        self._words = [[self._rank[word] for word in one] for one in words]
        self._by_rare_word: dict[int, list[int]] = {}
        self._by_beginning: dict[tuple[int, ...], list[int]] = {}
        for number, one in enumerate(words):
            ranks = sorted(self._rank[word] for word in _told_apart(one))
            for rank in ranks[: self._rare(len(ranks))]:
                self._by_rare_word.setdefault(rank, []).append(number)
            if len(one) >= INSIDE_WORDS:
                beginning = tuple(self._words[number][:INSIDE_WORDS])
                self._by_beginning.setdefault(beginning, []).append(number)

    def find(self, text: str) -> Iterator[Match]:
        """Find what a text of the stream repeats."""
        folded = fold(text)
        same = self._numbers.get(folded)
        if same is not None:
            yield Match(same, "exact", 1.0)
        words = _WORD.findall(folded)
        # No text has the number -1, so that words nobody looks for match nothing.
        ranks = [self._rank.get(word, -1) for word in words]
        inside = {number for number in self._inside(ranks) if number != same}
        yield from (Match(number, "inside", 1.0) for number in sorted(inside))
        for number, nearness in self._near(words, ranks):
            if number != same and number not in inside:
                yield Match(number, "near", nearness)

    def _inside(self, ranks: list[int]) -> Iterator[int]:
        for start in range(len(ranks) - INSIDE_WORDS + 1):
            for number in self._by_beginning.get(tuple(ranks[start : start + INSIDE_WORDS]), ()):
                words = self._words[number]
                if len(words) < len(ranks) and ranks[start : start + len(words)] == words:
                    yield number

    def _near(self, words: list[str], ranks: list[int]) -> Iterator[tuple[int, float]]:
        from rapidfuzz.distance import LCSseq

        told_apart = sorted(self._rank.get(word, -1) for word in _told_apart(words))
        size = len(told_apart)
        fewest = self._shared(size)
        candidates: dict[int, None] = {}
        for rank in told_apart[: self._rare(size)]:
            candidates.update(dict.fromkeys(self._by_rare_word.get(rank, ())))
        for number in candidates:
            other = self._words[number]
            if fewest <= len(other) and self._shared(len(other)) <= size:
                # The words as counts: of a share rapidfuzz rounds the cutoff up and loses what equals it.
                both = size + len(other)
                needed = math.ceil(self.nearness * both / 2 - _ROUNDING)
                common = LCSseq.similarity(ranks, other, score_cutoff=needed)
                if common:
                    yield number, 2 * common / both

    def _shared(self, size: int) -> int:
        """How many words a text must at least share with any that is near: also the fewest that one has."""
        return math.ceil(self.nearness * size / (2 - self.nearness) - _ROUNDING)

    def _rare(self, size: int) -> int:
        return size - self._shared(size) + 1 if size else 0


def _told_apart(words: Sequence[str]) -> list[str]:
    """The words with the second, third, ... of each told apart from the first."""
    if len({*words}) == len(words):
        return list(words)
    seen: dict[str, int] = {}
    told = []
    for word in words:
        before = seen.get(word, 0)
        told.append(f"{word} {before}" if before else word)
        seen[word] = before + 1
    return told
