"""Whole-word masking, as a collator that decides by the row and not by the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining.tokens import Row

_MASKED, _RANDOM = 0.8, 0.1  # of the chosen words; the rest stay as they are (BERT, section 3.1)


class WholeWordMasking:
    """Turns rows into a batch in which some words are hidden, all pieces of a word together.

    Words are drawn until `rate` of a row's pieces are reached, never more, but at least one word. A chosen
    word becomes [MASK] (80 %), random pieces (10 %) or stays (10 %), again as a whole. Special tokens are
    never chosen. The draw depends on `seed` and the row's visit number alone, so that a resumed run hides
    the same words; the collator of transformers draws from the global generators.

    Args:
        tokenizer: Gives the special tokens and the size of the vocabulary.
        rate: Share of pieces to predict, between 0 and 1. 0.15 is BERT's.
        seed: Of the draw.
        isolate: Keep attention inside each document of a packed row and count positions from its start, so
            that a document is seen as it will be when it is encoded alone.
        first_position: Position id of a first token: 0 for BERT, 2 for RoBERTa.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        *,
        rate: float = 0.15,
        seed: int = 0,
        isolate: bool = True,
        first_position: int = 0,
    ) -> None:
        if not 0 < rate < 1:
            raise InputError(f"the masking rate is {rate}", "use a number between 0 and 1")
        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        self.isolate, self.first_position = isolate, first_position
        self._special = np.asarray(tokenizer.all_special_ids)
        self._ordinary = np.setdiff1d(np.arange(len(tokenizer)), self._special)

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Mask and stack."""
        lengths = np.array([len(row["tokens"]) for row in rows])
        present = np.arange(lengths.max()) < lengths[:, None]  # (batch, length)
        input_ids = np.full(present.shape, self.tokenizer.pad_token_id, dtype=np.int64)
        chosen = np.zeros_like(present)
        labels = []
        for number, row in enumerate(rows):
            hidden, places = self.mask(row)
            input_ids[number, : len(hidden)] = hidden
            chosen[number, places] = True
            labels.append(row["tokens"][places])
        batch = {
            "input_ids": input_ids,
            "masked_index": np.flatnonzero(chosen),
            "masked_labels": np.concatenate(labels).astype(np.int64),
            **(
                self._isolated(input_ids, present)
                if self.isolate
                else {"attention_mask": present.astype(np.int64)}
            ),
        }
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def mask(self, row: Row) -> tuple[np.ndarray, np.ndarray]:
        """Choose and hide words of one row; return its tokens and the chosen places."""
        generator = np.random.default_rng((self.seed, row["visit"]))
        tokens = np.array(row["tokens"])
        candidates = np.flatnonzero(~np.isin(tokens, self._special))
        if not len(candidates):
            return tokens, candidates
        # A row may begin inside a word: what is left of it counts as a word.
        names, numbers, sizes = np.unique(
            np.cumsum(row["word_starts"])[candidates], return_inverse=True, return_counts=True
        )
        order = generator.permutation(len(names))
        within = np.searchsorted(np.cumsum(sizes[order]), self.rate * len(candidates), side="right")
        count = max(1, int(within))
        fate = np.full(len(names), np.nan)
        fate[order[:count]] = generator.random(count)
        fates = fate[numbers]  # (candidates,), nan where the word is not chosen
        tokens[candidates[fates < _MASKED]] = self.tokenizer.mask_token_id
        replaced = candidates[(fates >= _MASKED) & (fates < _MASKED + _RANDOM)]
        tokens[replaced] = generator.choice(self._ordinary, len(replaced))
        return tokens, candidates[~np.isnan(fates)]

    def _isolated(self, input_ids: np.ndarray, present: np.ndarray) -> dict[str, np.ndarray]:
        opens = input_ids == self.tokenizer.cls_token_id
        # Padding gets a document of its own, so that no row of the attention matrix is empty.
        document = np.where(present, np.cumsum(opens, axis=1), -1)
        place = np.arange(input_ids.shape[1])
        start = np.maximum.accumulate(np.where(opens, place, 0), axis=1)
        positions = np.where(present, place - start, 0) + self.first_position
        same = document[:, None, :, None] == document[:, None, None, :]  # (batch, 1, length, length)
        return {"attention_mask": same, "position_ids": positions}
