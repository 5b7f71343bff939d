"""Tokenise once, sort by tokens, pad little."""

from __future__ import annotations

import re
import sys
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
# Of a long text so many characters are tokenized first for each token that the model reads, and more if they
# have too few tokens. Where a text ends changes its last tokens only: those of its last word, as a rule.
_CHARACTERS_PER_TOKEN = 16
_WIDER = 8
_MARGIN = 64
_BLANK = re.compile(r"\s")
_MOST_TEXTS = 512  # in a batch
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


def tokenise(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Any]) -> TokenisedTexts:
    """Tokenize texts or pairs in a few large calls, truncated to the tokenizer's own limit.

    Of a long text no more is tokenized than decides which tokens the model reads.
    """
    keys = [key for key in _SEQUENCE_KEYS if key in tokenizer.model_input_names]
    pieces: dict[str, list[NDArray[np.int32]]] = {key: [] for key in keys}
    lengths: list[int] = []
    cut: list[int] = []
    for first in range(0, len(texts), _TEXTS_PER_CALL):
        rows = _tokenize_beginnings(tokenizer, texts[first : first + _TEXTS_PER_CALL], keys)
        lengths += [len(row["input_ids"]) for row, _ in rows]
        cut += [first + place for place, (_, is_cut) in enumerate(rows) if is_cut]
        for key in keys:
            pieces[key].append(np.fromiter((token for row, _ in rows for token in row[key]), dtype=np.int32))
    return TokenisedTexts(
        columns={key: np.concatenate(arrays) for key, arrays in pieces.items()},
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        padding=_padding(tokenizer),
        cut=cut,
    )


def _tokenize_beginnings(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[Any], keys: Sequence[str]
) -> list[tuple[dict[str, list[int]], bool]]:
    """Return the columns of each text or pair, and whether it was truncated."""
    limit = tokenizer.model_max_length
    # A tokenizer that keeps the end of a text, or has no limit, needs all of it.
    reach = (limit + _MARGIN) * _CHARACTERS_PER_TOKEN if tokenizer.truncation_side == "right" else sys.maxsize
    needed = 2 * limit + _MARGIN
    found: dict[int, tuple[dict[str, list[int]], bool]] = {}
    while left := [row for row in range(len(texts)) if row not in found]:
        parts = [
            text[: _end(text, reach)] if isinstance(text, str) else _short_pair(tokenizer, text, reach)
            for text in (texts[row] for row in left)
        ]
        encoded: Any = tokenizer(parts, truncation="longest_first", return_attention_mask=False)
        for place, (row, part) in enumerate(zip(left, parts, strict=True)):
            encoding, text = encoded.encodings[place], texts[row]
            is_whole = not isinstance(text, str) or len(part) == len(text)
            if is_whole or len(_offsets(encoding)) >= needed:
                # The truncated tokens are only made for texts that may have lost some.
                is_cut = len(encoding) >= limit and bool(encoding.overflowing)
                found[row] = {key: encoded[key][place] for key in keys}, is_cut
        reach *= _WIDER
    return [found[row] for row in range(len(texts))]


def _short_pair(tokenizer: PreTrainedTokenizerBase, pair: Sequence[str], reach: int) -> tuple[str, ...]:
    """Return a pair with the same tokens as the model reads them, of which no text is long.

    A tokenizer makes all combinations of what is truncated of both texts, which fill the memory.
    """
    if max(map(len, pair)) <= reach:
        return tuple(pair)
    limit = tokenizer.model_max_length
    sides = [_first_tokens(tokenizer, text, reach, 2 * limit + _MARGIN) for text in pair]
    # The text with more tokens gets the odd token of the room. Of two long texts nobody counts all tokens, so
    # it is the one with more characters.
    longer = max((0, 1), key=lambda side: (len(sides[side]), len(pair[side])))
    most = {longer: 2 * limit + _MARGIN, 1 - longer: 2 * limit}
    return tuple(
        text[: int(ends[most[side] - 1])] if len(ends) >= most[side] else text
        for side, (text, ends) in enumerate(zip(pair, sides, strict=True))
    )


def _first_tokens(tokenizer: PreTrainedTokenizerBase, text: str, reach: int, most: int) -> list[int]:
    """Return where the first tokens of a text end."""
    while True:
        part = text[: _end(text, reach)]
        encoded: Any = tokenizer([part], truncation="longest_first", return_attention_mask=False)
        ends = sorted(end for _, end in _offsets(encoded.encodings[0]))
        if len(part) == len(text) or len(ends) >= most:
            return ends[:most]
        reach *= _WIDER


def _offsets(encoding: Any) -> set[tuple[int, int]]:
    """Return where the tokens of a text lie, the truncated ones among them."""
    return {
        place
        for piece in (encoding, *encoding.overflowing)
        for place, owner in zip(piece.offsets, piece.sequence_ids, strict=True)
        if owner == 0
    }


def _end(text: str, reach: int) -> int:
    """Return where a text may end: at the first blank after so many characters, if one is near."""
    if len(text) <= reach:
        return len(text)
    blank = _BLANK.search(text, reach, 2 * reach)
    return blank.start() if blank else 2 * reach


def from_ids(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[Sequence[int]], *, longest: int | None
) -> TokenisedTexts:
    """Texts of token ids that are there already, special tokens among them.

    Raises:
        InputError: A text is empty or has more than the longest's tokens, or there is no such token.
    """
    for row, text in enumerate(ids):
        if not text or (longest is not None and len(text) > longest):
            raise InputError(f"text {row} has {len(text):,} token ids", f"pass 1 to {longest:,}")
        if (wrong := next((one for one in text if not 0 <= one < len(tokenizer)), None)) is not None:
            raise InputError(
                f"text {row} has the token id {wrong}, but the model has {len(tokenizer):,} tokens",
                "use the model's own tokenizer",
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


def same_length_batches(lengths: NDArray[np.int64], *, token_budget: int) -> Iterator[NDArray[np.intp]]:
    """Cut texts into batches of one length each, the longest first.

    Nothing is padded, so that a text's vector does not depend on what is encoded beside it.
    """
    order = np.argsort(-lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, ends):
        size = max(1, min(_MOST_TEXTS, token_budget // max(1, int(lengths[same[0]]))))
        for start in range(0, len(same), size):
            yield same[start : start + size]


def batches(lengths: NDArray[np.int64], *, token_budget: int) -> Iterator[NDArray[np.intp]]:
    """Cut texts into batches of similar length, the longest first: too large a batch fails at once."""
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


def padding_share(lengths: NDArray[np.int64], *, token_budget: int) -> float:
    """Part of all positions that is padding."""
    positions = sum(
        len(batch) * int(lengths[batch].max()) for batch in batches(lengths, token_budget=token_budget)
    )
    return 1.0 - int(lengths.sum()) / positions if positions else 0.0
