"""Texts and pairs of texts through an encoder: every different one once, those of a length together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError

Input = str | tuple[str, str]
"""A text, or a pair of texts that the encoder reads as one sequence, [CLS] first [SEP] second [SEP]."""

_BATCH = 64


def check_inputs(texts: Sequence[Input], *, pairs: bool) -> list[Input]:
    """Refuse what a classifier of texts, or of pairs, cannot classify."""
    if isinstance(texts, str):
        raise InputError("a classifier expects a list of texts, but got a single string", "wrap it in a list")
    if not isinstance(texts, Iterable):
        raise InputError(f"a classifier expects a list of texts, but got {texts!r}", "pass a list")
    checked: list[Input] = []
    for index, text in enumerate(texts):
        is_pair = (
            isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(part, str) for part in text)
        )
        if not (is_pair if pairs else isinstance(text, str)):
            wanted = "a pair of texts (first, second)" if pairs else "a text"
            raise InputError(f"input {index} is {str(text)[:40]!r}", f"pass {wanted}")
        checked.append((text[0], text[1]) if pairs else text)
    return checked


@torch.inference_mode()
def compute(
    encoder: SentenceTransformer,
    inputs: Sequence[Input],
    function: Callable[[dict[str, Any]], Tensor],
    *,
    max_length: int | None,
    dropout: bool = False,
) -> NDArray[np.float32]:
    """Apply a function to what the encoder returns."""
    places: dict[Input, int] = {}
    positions = [places.setdefault(one, len(places)) for one in inputs]
    unique = list(places)
    if dropout:
        positions, unique = list(range(len(inputs))), list(inputs)
    # Longest first: a batch that does not fit the memory fails at once.
    order = sorted(range(len(unique)), key=lambda place: -_characters(unique[place]))
    rows: list[NDArray[np.float32]] = []
    limit = {} if max_length is None else {"max_length": max_length}
    with training_flags_kept(encoder):
        encoder.train(dropout)
        for start in range(0, len(order), _BATCH):
            batch = [unique[place] for place in order[start : start + _BATCH]]
            features = {
                name: value.to(encoder.device) if isinstance(value, Tensor) else value
                for name, value in encoder.preprocess(batch, **limit).items()
            }
            rows.append(function(encoder(features)).float().cpu().numpy())
    sorted_rows = np.concatenate(rows)  # (unique, columns)
    place_of = np.empty(len(order), dtype=np.intp)
    place_of[order] = np.arange(len(order))
    return sorted_rows[place_of[positions]]


def _characters(text: Input) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])
