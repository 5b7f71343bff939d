"""Texts that a stream repeats: exactly, nearly, or inside longer ones.

Two texts of n and m words, of which L are in both in the same order, are as near as 2 L / (n + m). At
nearness t they share at least t n / (2 - t) words, so that one of the n - t n / (2 - t) + 1 rarest words of
the one is among those of the other (prefix filtering; Chaudhuri et al., ICDE 2006). Only texts that share a
rare word are compared, and no near text is missed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

How = Literal["exact", "inside", "near"]
INSIDE_WORDS = 6
"""Texts of fewer words occur inside longer ones by chance."""
# Chinese and Japanese are written without spaces: each character is a word. Elsewhere a run of letters and
# digits is one, so that punctuation and tokenization do not matter.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
)
_ROUNDING = 1e-9


class Match(NamedTuple):
    """The number of a text, how it was found (`inside`: all its words in a row), and how near it is."""

    number: int
    how: How
    nearness: float


def fold(text: str) -> str:
    """Return a text without letter case, white space and Unicode variants."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class NearTexts:
    """Unique folded texts to search for; `nearness` is above 0.5 and at most 1."""

    def __init__(self, texts: Sequence[str], *, nearness: float = 0.9) -> None:
        self.nearness = nearness
        self._numbers = {text: number for number, text in enumerate(texts)}
        words = [_WORD.findall(text) for text in texts]
        counts = Counter(word for own in words for word in _number_repeats(own))
        # Rarer words have lower ranks.
        rarest = sorted(counts, key=lambda word: (counts[word], word))
        self._rank = {word: rank for rank, word in enumerate(rarest)}
        self._words = [[self._rank[word] for word in own] for own in words]
        self._by_rare_word: defaultdict[int, list[int]] = defaultdict(list)
        self._by_beginning: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, own in enumerate(words):
            ranks = sorted(self._rank[word] for word in _number_repeats(own))
            for rank in ranks[: self._rare(len(ranks))]:
                self._by_rare_word[rank].append(number)
            if len(own) >= INSIDE_WORDS:
                self._by_beginning[tuple(self._words[number][:INSIDE_WORDS])].append(number)

    def find(self, text: str) -> Iterator[Match]:
        """Yield what a text of the stream repeats."""
        folded = fold(text)
        same = self._numbers.get(folded)
        if same is not None:
            yield Match(same, "exact", 1.0)
        words = _WORD.findall(folded)
        ranks = [self._rank.get(word, -1) for word in words]  # -1 is not the rank of any word
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

        numbered = sorted(self._rank.get(word, -1) for word in _number_repeats(words))
        size = len(numbered)
        fewest = self._shared(size)
        candidates: dict[int, None] = {}
        for rank in numbered[: self._rare(size)]:
            candidates.update(dict.fromkeys(self._by_rare_word.get(rank, ())))
        for number in candidates:
            other = self._words[number]
            if fewest <= len(other) and self._shared(len(other)) <= size:
                # A count, since rapidfuzz rounds a cutoff that is a share up and loses what equals it.
                both = size + len(other)
                needed = math.ceil(self.nearness * both / 2 - _ROUNDING)
                common = LCSseq.similarity(ranks, other, score_cutoff=needed)
                if common:
                    yield number, 2 * common / both

    def _shared(self, size: int) -> int:
        """Return how many words a text must share with any near one, which is also the shortest such text."""
        return math.ceil(self.nearness * size / (2 - self.nearness) - _ROUNDING)

    def _rare(self, size: int) -> int:
        return size - self._shared(size) + 1 if size else 0


def _number_repeats(words: Sequence[str]) -> list[str]:
    """Return the words, with a number after the second, third, ... of each."""
    if len({*words}) == len(words):
        return list(words)
    seen: Counter[str] = Counter()
    numbered = []
    for word in words:
        numbered.append(f"{word} {seen[word]}" if seen[word] else word)
        seen[word] += 1
    return numbered
