"""Tokenised documents on disk, read through memory maps."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from sentemb._files import new_folder, read_json, write_json
from sentemb.errors import InputError

_BATCH = 2000
_NAMES = ("tokens", "word_starts", "documents")


@dataclass(frozen=True)
class TokenStore:
    """Documents as one stream of token ids, each document with [CLS] before and [SEP] after it."""

    tokens: np.ndarray  # ids, int32 (tokens,)
    word_starts: np.ndarray  # whether a token begins a word, bool (tokens,); special tokens do
    documents: np.ndarray  # offsets into the stream, int64 (documents + 1,)
    folder: Path

    @classmethod
    def open(cls, folder: Path) -> TokenStore:
        """Map a store into memory."""
        manifest = read_json(folder / "store.json")
        arrays = {}
        for name in _NAMES:
            try:
                arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError) as error:
                raise InputError(f"{folder / name}.npy is damaged", f"remove {folder}") from error
        if arrays["tokens"].size != manifest["tokens"] or arrays["documents"][-1] != manifest["tokens"]:
            raise InputError(f"{folder} is incomplete", "delete it to tokenize the corpus again")
        return cls(**arrays, folder=folder)


def build_store(folder: Path, texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> TokenStore:
    """Tokenise documents into a new store."""
    with new_folder(folder) as partial:
        lengths = [0]
        with (partial / "tokens.raw").open("wb") as tokens, (partial / "starts.raw").open("wb") as starts:
            for ids, word_starts in _tokenised(texts, tokenizer):
                tokens.write(ids.tobytes())
                starts.write(word_starts.tobytes())
                lengths.append(len(ids))
        if len(lengths) == 1:
            raise InputError("the corpus does not contain a document", "use a corpus that contains text")
        for raw, name, kind in (("tokens.raw", "tokens", np.int32), ("starts.raw", "word_starts", np.bool_)):
            np.save(partial / f"{name}.npy", np.memmap(partial / raw, dtype=kind, mode="r"))
            (partial / raw).unlink()
        offsets = np.cumsum(np.asarray(lengths, dtype=np.int64))
        np.save(partial / "documents.npy", offsets)
        write_json(partial / "store.json", {"tokens": int(offsets[-1]), "documents": len(lengths) - 1})
    return TokenStore.open(folder)


def store_key(parts: Iterable[str]) -> str:
    """A short name for what a store was made from, so that another corpus or tokenizer never reuses it."""
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()[:16]


def _tokenised(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    opening = np.array([tokenizer.cls_token_id], dtype=np.int32)
    closing = np.array([tokenizer.sep_token_id], dtype=np.int32)
    stream = iter(texts)
    while batch := list(itertools.islice(stream, _BATCH)):
        encoded = tokenizer(batch, add_special_tokens=False, return_attention_mask=False, verbose=False)
        for encoding in encoded.encodings:
            if not encoding.ids:
                continue
            # word_ids numbers the pre-tokenizer's words, whatever sign a vocabulary marks continuations with.
            words = np.asarray(encoding.word_ids, dtype=np.int64)
            starts = np.ones(len(words) + 2, dtype=np.bool_)
            starts[2:-1] = words[1:] != words[:-1]
            ids = np.asarray(encoding.ids, dtype=np.int32)
            yield np.concatenate([opening, ids, closing]), starts
