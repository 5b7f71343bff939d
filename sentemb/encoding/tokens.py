"""How much of a text a model reads: its tokens, where they lie and how many there is room for."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.truncation import TruncatedTexts

# Longer texts are tokenised in parts: a tokenizer takes some hundred bytes for each token.
_PART = 100_000
_TEXTS_PER_CALL = 1024
_CHARACTERS_PER_CALL = 1_000_000


class Tokens:
    """The tokens of texts as one model reads them, special tokens and prompt left out.

    Attributes:
        room: How many tokens of a text the model reads.
        cut: The texts of which it has read no more.
    """

    def __init__(self, tokenizer: Any, room: int, *, prompt: str = "", name: str = "the model") -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._prompt_tokens = 0
        self._prompt_tokens = len(self._starts(prompt)) if prompt else 0
        self.room = max(0, room - self._prompt_tokens)
        self.cut = TruncatedTexts(name, self.room)

    @cached_property
    def _fast(self) -> Any:
        """A tokenizer that never cuts, or None."""
        if not getattr(self._tokenizer, "is_fast", False):
            return None
        # A copy: cutting is a state of the tokenizer, and other threads are encoding with it.
        fast = copy.deepcopy(self._tokenizer.backend_tokenizer)
        fast.no_truncation()
        fast.no_padding()
        return fast

    @property
    def overhead(self) -> int:
        """Tokens that the model reads with each text: those of the prompt, and special ones."""
        return self._prompt_tokens + int(self._tokenizer.num_special_tokens_to_add())

    def lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of tokens of each text, (n,), or a bound on the same side of the room.

        A short text of ASCII may have an upper bound within the room: a token has one character or more, and
        there may be one before the first. A long text may have a lower bound beyond the room.
        """
        lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
        unsure = [row for row, text in enumerate(texts) if lengths[row] > self.room or not text.isascii()]
        for rows in _calls(unsure, texts):
            lengths[rows] = self.counts([texts[row] for row in rows])
        return lengths

    def note(self, texts: Sequence[str]) -> None:
        """Count those texts that are longer than the model reads."""
        long = self.lengths(texts) > self.room
        self.cut.add(text for text, is_long in zip(texts, long, strict=True) if is_long)

    def starts(self, text: str) -> NDArray[np.int64]:
        """Where each token of a text begins, (tokens,), rising."""
        found = self._starts(self._prompt + text)[self._prompt_tokens :] - len(self._prompt)
        return np.maximum(found, 0)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, or of a long one a lower bound beyond the room."""
        if self._fast is None or any(len(text) > _PART for text in texts):
            counts = [self._count(self._prompt + text) for text in texts]
        else:
            given = [self._prompt + text for text in texts]
            counts = [len(one) for one in self._fast.encode_batch(given, add_special_tokens=False)]
        return [count - self._prompt_tokens for count in counts]

    def _count(self, text: str) -> int:
        """Count tokens until there is no more room for them."""
        count = 0
        for _, part in _parts(text):
            count += len(self._starts_of_part(part))
            if count > self.room + self._prompt_tokens:
                break
        return count

    def _starts(self, text: str) -> NDArray[np.int64]:
        found = [self._starts_of_part(part) + first for first, part in _parts(text)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def _starts_of_part(self, part: str) -> NDArray[np.int64]:
        if self._fast is None:
            options = {"add_special_tokens": False, "truncation": False, "verbose": False}
            count = len(self._tokenizer(part, **options)["input_ids"])
            # Such a tokenizer does not say where its tokens lie.
            return np.linspace(0, len(part), count, endpoint=False).astype(np.int64)
        offsets = self._fast.encode(part, add_special_tokens=False).offsets
        return np.maximum.accumulate(np.array([start for start, _ in offsets], dtype=np.int64))


def tokens_of(encoder: Any) -> Tokens | None:
    """The tokens of an encoder that reads no more than so many of a text; None where it reads all of it.

    Functions and encoders of the user's own are taken to read all, unless they have `tokens` too.
    """
    found = getattr(encoder, "tokens", None)
    return found if isinstance(found, Tokens) else None


def _calls(rows: list[int], texts: Sequence[str]) -> Iterator[list[int]]:
    """Rows for one call each of the tokenizer."""
    waiting = iter(rows)
    while some := list(islice(waiting, _TEXTS_PER_CALL)):
        characters = np.cumsum([len(texts[row]) for row in some])
        for part in np.split(some, np.flatnonzero(np.diff(characters // _CHARACTERS_PER_CALL)) + 1):
            yield part.tolist()


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Parts of a text that end at a blank where there is one, and where they begin."""
    start = 0
    while len(text) - start > _PART:
        blank = max(text.rfind(" ", start + 1, start + _PART), text.rfind("\n", start + 1, start + _PART))
        stop = blank if blank > start else start + _PART
        yield start, text[start:stop]
        start = stop
    yield start, text[start:]
