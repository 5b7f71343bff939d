"""Tokenise once, sort by tokens, pad little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sentemb.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A tokenizer call costs a fixed amount, and its Python lists take about 100 bytes a token.
_TEXTS_PER_CALL = 4096
_SEQUENCE_KEYS = ("input_ids", "token_type_ids")


@dataclass(frozen=True)
class TokenisedTexts:
    """Texts as token numbers, without padding."""

    columns: dict[str, NDArray[np.int32]]  # input_ids and perhaps token_type_ids, all texts joined
    starts: NDArray[np.int64]  # where each text begins, and where the last one ends
    padding: dict[str, int]
    cut: list[int]  # which texts were longer

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text, special tokens included."""
        return np.diff(self.starts)

    def batch(self, indices: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        """Assemble some texts as a padded batch."""
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


def tokenise(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> TokenisedTexts:
    """Tokenise texts in a few large calls, cut to the tokenizer's own limit."""
    keys = [key for key in _SEQUENCE_KEYS if key in tokenizer.model_input_names]
    pieces: dict[str, list[NDArray[np.int32]]] = {key: [] for key in keys}
    lengths: list[int] = []
    cut: list[int] = []
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        encoded: Any = tokenizer(
            list(texts[first : first + _TEXTS_PER_CALL]),
            truncation="longest_first",
            return_attention_mask=False,
        )
        counts = [len(row) for row in encoded["input_ids"]]
        lengths += counts
        # What was cut off is made for no more texts than may have lost something.
        full = (row for row, count in enumerate(counts) if count >= tokenizer.model_max_length)
        cut += [first + row for row in full if encoded.encodings[row].overflowing]
        for key in keys:
            pieces[key].append(np.fromiter((token for row in encoded[key] for token in row), dtype=np.int32))
    return TokenisedTexts(
        columns={key: np.concatenate(arrays) for key, arrays in pieces.items()},
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        padding=_padding(tokenizer),
        cut=cut,
    )


def from_ids(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[Sequence[int]], *, longest: int | None
) -> TokenisedTexts:
    """Texts of token ids that are there already, special tokens among them.

    Raises:
        InputError: A text is empty or has more than the longest's tokens, or there is no such token.
    """
    for row, text in enumerate(ids):
        if not text or (longest is not None and len(text) > longest):
            raise InputError(f"text {row} has {len(text):,} token ids", f"give 1 to {longest:,}")
        if (wrong := next((one for one in text if not 0 <= one < len(tokenizer)), None)) is not None:
            raise InputError(
                f"text {row} has token id {wrong}, the model knows {len(tokenizer):,}",
                "use the tokenizer of the model",
            )
    joined = np.array([one for text in ids for one in text], dtype=np.int32)
    columns = {"input_ids": joined}
    if "token_type_ids" in tokenizer.model_input_names:
        columns["token_type_ids"] = np.zeros_like(joined)
    return TokenisedTexts(
        columns=columns,
        starts=np.concatenate([[0], np.cumsum([len(text) for text in ids])]).astype(np.int64),
        padding=_padding(tokenizer),
        cut=[],
    )


def _padding(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    return {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}


def same_length_batches(
    lengths: NDArray[np.int64], *, token_budget: int, max_texts: int = 512
) -> Iterator[NDArray[np.intp]]:
    """Cut texts into batches of one length each, the longest first.

    Nothing is padded, so that a text's vector does not depend on what is encoded beside it.
    """
    order = np.argsort(-lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, ends):
        size = max(1, min(max_texts, token_budget // max(1, int(lengths[same[0]]))))
        for start in range(0, len(same), size):
            yield same[start : start + size]


def batches(
    lengths: NDArray[np.int64], *, token_budget: int, max_texts: int = 512
) -> Iterator[NDArray[np.intp]]:
    """Cut texts into batches of similar length, the longest first: too large a batch fails at once."""
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    start = 0
    while start < len(order):
        width = max(1, int(lengths[start]))
        end = min(len(order), start + max(1, min(max_texts, token_budget // width)))
        # Past a quarter of the budget the matrix products gain little from a larger batch, while padding
        # costs in full: the batch ends where the length changes. A batch of one length needs no mask either.
        enough = start + token_budget // (4 * width)
        if enough < end:
            shorter = int(np.searchsorted(-lengths[enough:end], -lengths[enough], side="right"))
            end = enough + shorter
        yield order[start:end]
        start = end


def padding_share(lengths: NDArray[np.int64], *, token_budget: int) -> float:
    """Part of all positions that is padding."""
    positions = sum(
        len(batch) * int(lengths[batch].max()) for batch in batches(lengths, token_budget=token_budget)
    )
    return 1.0 - int(lengths.sum()) / positions if positions else 0.0
