"""Texts as the tokens of a model: tokenized once, batched by length, counted and located."""

from __future__ import annotations

import copy
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.truncation import TruncatedTexts

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# A tokenizer call costs a fixed amount, and its Python lists take about 100 bytes per token.
_TEXTS_PER_CALL = 4096
# Of a long text so many characters are tokenized first for each token that the model reads, and more if they
# have too few tokens. Where a text ends changes its last tokens only: those of its last word, as a rule.
_CHARACTERS_PER_TOKEN = 16
_WIDER = 8
_MARGIN = 64
_BLANK = re.compile(r"\s")
_MOST_TEXTS = 512  # in a batch
_MOST_PADDING = 0.125  # of the rows of a batch; with more, it is divided
_SEQUENCE_KEYS = {"input_ids": "ids", "token_type_ids": "type_ids"}  # and the names of tokenizers
# Longer texts are counted in parts: a tokenizer takes some hundred bytes for each token.
_PART = 100_000
_TEXTS_PER_COUNT = 64


@dataclass(frozen=True)
class TokenisedTexts:
    """Texts as token ids, without padding."""

    columns: dict[str, NDArray[np.int32]]  # `input_ids` and perhaps `token_type_ids`, all texts joined
    starts: NDArray[np.int64]  # where each text begins, and where the last one ends
    padding: dict[str, int]  # the id of padding, by column
    cut: list[int]  # which texts were truncated

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text, special tokens included."""
        return np.diff(self.starts)

    def batch(self, indices: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        """Return some texts as a padded batch."""
        import torch

        lengths = self.lengths[indices]
        width = max(1, int(lengths.max()))
        offsets = np.arange(width)[None, :]
        real = offsets < lengths[:, None]  # (batch, width)
        where = np.where(real, self.starts[indices][:, None] + offsets, 0)
        features = {
            key: torch.from_numpy(np.where(real, column[where], self.padding[key]).astype(np.int64))
            for key, column in self.columns.items()
        }
        features["attention_mask"] = torch.from_numpy(real.astype(np.int64))
        return features


def tokenise(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Any]) -> TokenisedTexts:
    """Tokenize texts or pairs in a few large calls, truncated to the tokenizer's own limit."""
    names = [key for key in _SEQUENCE_KEYS if key in tokenizer.model_input_names]
    pieces: dict[str, list[NDArray[np.int32]]] = {key: [] for key in names}
    lengths: list[int] = []
    cut: list[int] = []
    encode = _encode_of(tokenizer)
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        encodings = encode([_shorten(tokenizer, text) for text in texts[first : first + _TEXTS_PER_CALL]])
        for place, encoding in enumerate(encodings):
            # The truncated tokens are only made for texts that may have lost some.
            if len(encoding) >= tokenizer.model_max_length and encoding.overflowing:
                cut.append(first + place)
        lengths += map(len, encodings)
        for key in names:
            ids = [getattr(encoding, _SEQUENCE_KEYS[key]) for encoding in encodings]
            pieces[key].append(np.fromiter((token for row in ids for token in row), dtype=np.int32))
    columns = {key: np.concatenate(arrays) for key, arrays in pieces.items()}
    padding = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenisedTexts(columns, starts, padding, cut)


def _encode_of(tokenizer: Any) -> Callable[[list[Any]], list[Any]]:
    """Return what encodes texts or pairs as the tokenizer does, without the offsets that nobody reads."""
    from transformers.tokenization_utils_base import LARGE_INTEGER, PaddingStrategy, TruncationStrategy

    limit = tokenizer.model_max_length
    is_limited = limit <= LARGE_INTEGER
    tokenizer.set_truncation_and_padding(
        PaddingStrategy.DO_NOT_PAD,
        TruncationStrategy.LONGEST_FIRST if is_limited else TruncationStrategy.DO_NOT_TRUNCATE,
        limit,
        stride=0,
        pad_to_multiple_of=None,
        padding_side=None,
    )
    backend = tokenizer.backend_tokenizer
    if backend.encode_special_tokens != tokenizer.split_special_tokens:
        backend.encode_special_tokens = tokenizer.split_special_tokens
    encode: Callable[[list[Any]], list[Any]] = backend.encode_batch_fast
    return encode


def _shorten(tokenizer: PreTrainedTokenizerBase, item: Any) -> Any:
    """Return a text or pair with the same tokens as the model reads them, of which no text is long.

    Of a pair of long texts a tokenizer makes all combinations of what is truncated, which fill the memory.
    """
    limit = tokenizer.model_max_length
    texts = (item,) if isinstance(item, str) else tuple(item)
    # A tokenizer that keeps the end of a text needs all of it.
    if (
        tokenizer.truncation_side != "right"
        or max(map(len, texts)) <= (limit + _MARGIN) * _CHARACTERS_PER_TOKEN
    ):
        return item if isinstance(item, str) else texts
    needed = 2 * limit + _MARGIN
    if isinstance(item, str):
        return _beginning(tokenizer, item, needed)[0]
    ends = [_beginning(tokenizer, text, needed)[1][:needed] for text in texts]
    # The text with more tokens gets the odd token of the room. Of two long texts nobody counts all tokens, so
    # it is the one with more characters.
    longer = max((0, 1), key=lambda side: (len(ends[side]), len(texts[side])))
    most = {longer: needed, 1 - longer: 2 * limit}
    return tuple(
        text[: ends[side][most[side] - 1]] if len(ends[side]) >= most[side] else text
        for side, text in enumerate(texts)
    )


def _beginning(tokenizer: PreTrainedTokenizerBase, text: str, needed: int) -> tuple[str, list[int]]:
    """Return a beginning with at least so many tokens, or the whole text; and where its tokens end.

    It may end within a word of thousands of characters. If this repeats itself, a Unigram model has several
    segmentations with the same probability, and may choose another than in the whole text.
    """
    reach = _reach(tokenizer.model_max_length)
    while True:
        blank = _BLANK.search(text, reach, 2 * reach)  # where a text may end, if it is near
        part = text[: blank.start() if blank else 2 * reach] if len(text) > reach else text
        encoded: Any = tokenizer([part], truncation="longest_first", return_attention_mask=False)
        (encoding,) = encoded.encodings
        places = {
            place
            for piece in (encoding, *encoding.overflowing)
            for place, owner in zip(piece.offsets, piece.sequence_ids, strict=True)
            if owner == 0  # not a special token
        }
        if len(part) == len(text) or len(places) >= needed:
            return part, sorted(int(end) for _, end in places)
        reach *= _WIDER


def _reach(limit: int) -> int:
    return (limit + _MARGIN) * _CHARACTERS_PER_TOKEN


def same_length_batches(
    lengths: NDArray[np.int64], *, token_budget: int, sizes: Sequence[int]
) -> Iterator[NDArray[np.intp]]:
    """Divide texts into batches of one length each, the longest first: only rows are padded, to a size."""
    order = np.argsort(-lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, ends):
        length = max(1, int(lengths[same[0]]))
        most, start = max(1, min(_MOST_TEXTS, token_budget // length)), 0
        while start < len(same):
            count = min(most, len(same) - start)
            place = bisect_left(sizes, count * length)
            if 0 < place < len(sizes) and sizes[place] > count * length * (1 + _MOST_PADDING):
                count = max(1, sizes[place - 1] // length)
            yield same[start : start + count]
            start += count


def batches(lengths: NDArray[np.int64], *, token_budget: int) -> Iterator[NDArray[np.intp]]:
    """Divide texts into batches of similar length, the longest first: too large a batch fails at once."""
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    start = 0
    while start < len(order):
        width = max(1, int(lengths[start]))
        end = min(len(order), start + max(1, min(_MOST_TEXTS, token_budget // width)))
        # Past a quarter of the budget the matrix products gain little from a larger batch, while padding
        # costs in full: the batch ends where the length changes. A batch of one length needs no mask either.
        enough = start + token_budget // (4 * width)
        if enough < end:
            shorter = int(np.searchsorted(-lengths[enough:end], -lengths[enough], side="right"))
            end = enough + shorter
        yield order[start:end]
        start = end


class Tokens:
    """The tokens of texts as one model reads them, special tokens and prompt left out."""

    def __init__(self, tokenizer: Any, room: int, *, prompt: str = "", name: str = "the model") -> None:
        self._tokenizer, self._prompt = tokenizer, prompt
        self._prompt_tokens = len(self._starts(prompt)) if prompt else 0
        self.room = max(0, room - self._prompt_tokens)  # tokens that the model reads of a text at most
        self.cut = TruncatedTexts(name, self.room)

    @cached_property
    def _fast(self) -> Any:
        """A tokenizer that never truncates, or None."""
        if not getattr(self._tokenizer, "is_fast", False):
            return None
        # A copy: truncation is a state of the tokenizer, and other threads are encoding with it.
        fast = copy.deepcopy(self._tokenizer.backend_tokenizer)
        fast.no_truncation()
        fast.no_padding()
        return fast

    @property
    def overhead(self) -> int:
        """Number of tokens that the model reads with each text: those of the prompt, and special ones."""
        return self._prompt_tokens + int(self._tokenizer.num_special_tokens_to_add())

    def lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of tokens of each text, (n,), or a bound on the same side of the room."""
        # A token has one character of ASCII or more, and there may be one before the first.
        lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
        unsure = [row for row, text in enumerate(texts) if lengths[row] > self.room or not text.isascii()]
        for first in range(0, len(unsure), _TEXTS_PER_COUNT):
            rows = unsure[first : first + _TEXTS_PER_COUNT]
            lengths[rows] = self.counts([texts[row] for row in rows])
        return lengths

    def note(self, texts: Sequence[str]) -> None:
        """Count the texts that are longer than the model reads."""
        long = self.lengths(texts) > self.room
        self.cut.add(text for text, is_long in zip(texts, long, strict=True) if is_long)

    def starts(self, text: str) -> NDArray[np.int64]:
        """Return where each token of a text begins, (tokens,), ascending."""
        found = self._starts(self._prompt + text)[self._prompt_tokens :] - len(self._prompt)
        return np.maximum(found, 0)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, or of a long one a lower bound beyond the room."""
        prompted = [self._prompt + text for text in texts]
        if self._fast is None or any(len(text) > _PART for text in texts):
            counts = [self._count(text) for text in prompted]
        else:
            encoded = self._fast.encode_batch(prompted, add_special_tokens=False)
            counts = [len(encoding) for encoding in encoded]
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
        return np.concatenate([self._starts_of_part(part) + first for first, part in _parts(text)])

    def _starts_of_part(self, part: str) -> NDArray[np.int64]:
        if self._fast is None:
            options = {"add_special_tokens": False, "truncation": False, "verbose": False}
            count = len(self._tokenizer(part, **options)["input_ids"])
            # Such a tokenizer does not say where its tokens lie.
            return np.linspace(0, len(part), count, endpoint=False).astype(np.int64)
        offsets = self._fast.encode(part, add_special_tokens=False).offsets
        return np.maximum.accumulate(np.array([start for start, _ in offsets], dtype=np.int64))


def tokens_of(encoder: Any) -> Tokens | None:
    """Return the tokens of an encoder that truncates texts; one without `tokens` is taken to read all."""
    found = getattr(encoder, "tokens", None)
    return found if isinstance(found, Tokens) else None


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each part of a text begins, and the part, which ends at a blank if there is one."""
    start = 0
    while len(text) - start > _PART:
        blank = max(text.rfind(" ", start + 1, start + _PART), text.rfind("\n", start + 1, start + _PART))
        stop = blank if blank > start else start + _PART
        yield start, text[start:stop]
        start = stop
    yield start, text[start:]
