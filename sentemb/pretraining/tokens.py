"""Tokenized documents on disk, and the rows of a run in their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from sentemb._files import new_folder
from sentemb.errors import InputError

SHORTEST_ROW = 8
_TEXTS = 2000  # that are tokenized at once


@dataclass(frozen=True)
class TokenStore:
    """Documents as one stream of token ids, each with [CLS] before and [SEP] after it, in memory maps."""

    tokens: np.ndarray  # ids, int32 (tokens,)
    word_starts: np.ndarray  # whether a token begins a word, bool (tokens,); special tokens do
    documents: np.ndarray  # offsets into the stream, int64 (documents + 1,)
    folder: Path

    @classmethod
    def open(cls, folder: Path) -> TokenStore:
        """Map a store into memory."""
        try:
            tokens = np.memmap(folder / "tokens.raw", np.int32, mode="r")
            starts = np.memmap(folder / "word_starts.raw", np.bool_, mode="r")
            documents = np.memmap(folder / "documents.raw", np.int64, mode="r")
            if not len(tokens) == len(starts) == documents[-1]:
                raise ValueError("lengths differ")
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder} is damaged: {error}", "delete it to tokenize the corpus again"
            ) from error
        return cls(tokens, starts, documents, folder)


def build_store(folder: Path, texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> TokenStore:
    """Tokenize documents into a new store."""
    with new_folder(folder) as partial:
        offsets = [0]
        with (
            (partial / "tokens.raw").open("wb") as tokens,
            (partial / "word_starts.raw").open("wb") as starts,
        ):
            for ids, word_starts in _tokenize(texts, tokenizer):
                tokens.write(ids.tobytes())
                starts.write(word_starts.tobytes())
                offsets.append(offsets[-1] + len(ids))
        if len(offsets) == 1:
            raise InputError("the corpus does not contain a document", "use a corpus that contains text")
        (partial / "documents.raw").write_bytes(np.array(offsets, np.int64).tobytes())
    return TokenStore.open(folder)


def _tokenize(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    stream = iter(texts)
    while batch := list(itertools.islice(stream, _TEXTS)):
        encoded = tokenizer(batch, add_special_tokens=False, return_attention_mask=False, verbose=False)
        for encoding in encoded.encodings:
            if not encoding.ids:
                continue
            # word_ids numbers the pre-tokenizer's words, whatever sign a vocabulary marks continuations with.
            words = np.asarray(encoding.word_ids, dtype=np.int64)
            starts = np.ones(len(words) + 2, dtype=np.bool_)
            starts[2:-1] = words[1:] != words[:-1]
            yield np.array([tokenizer.cls_token_id, *encoding.ids, tokenizer.sep_token_id], np.int32), starts


class Row(TypedDict):
    """One row before masking."""

    tokens: np.ndarray  # ids, int32 (length,)
    word_starts: np.ndarray  # whether a token begins a word, bool (length,)
    visit: int  # position in the whole run; it seeds the row's mask


class Visits(Dataset[Row]):
    """Blocks of `length` tokens in the order of a whole run: epoch after epoch, each in a new order.

    The stream of documents is split into full blocks; only the last one may be shorter. A visit's row depends
    on the seed and the visit's number alone. A resumed run that starts at visit n therefore sees what the
    uninterrupted run would have seen, and needs no state of a random generator.

    Args:
        store: The documents.
        length: Tokens of a block.
        seed: Of the order; None keeps the blocks' own order, for validation.
        count: Visits in the run, the length of this data set; by default one of each block.
    """

    def __init__(self, store: TokenStore, length: int, *, seed: int | None, count: int | None = None) -> None:
        if length < SHORTEST_ROW:
            raise InputError(f"length {length} is too short for a row", f"use {SHORTEST_ROW} or more")
        self._store, self._length, self._seed = store, length, seed
        # The last token is [SEP]: alone in a block it leaves nothing to hide.
        self.rows = -(-(len(store.tokens) - 1) // length)
        self._count = self.rows if count is None else count
        self._epoch, self._order = -1, np.arange(self.rows)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, visit: int) -> Row:
        if not 0 <= visit < self._count:
            raise IndexError(visit)
        epoch, place = divmod(visit, self.rows)
        if epoch != self._epoch and self._seed is not None:
            self._epoch, self._order = (
                epoch,
                np.random.default_rng((self._seed, epoch)).permutation(self.rows),
            )
        start = int(self._order[place]) * self._length
        tokens, word_starts = (
            stream[start : start + self._length] for stream in (self._store.tokens, self._store.word_starts)
        )
        return Row(tokens=tokens, word_starts=word_starts, visit=visit)
