"""An uncased WordPiece vocabulary trained on a corpus, as BERT's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.modules.source import find_source

SMALLEST_VOCABULARY = 300
_PATTERN = "bert-mini"


def train_wordpiece(texts: Iterable[str], vocabulary_size: int = 16_000) -> PreTrainedTokenizerFast:
    """Train BERT's uncased tokenizer: lower case, accents stripped, split at punctuation, WordPiece."""
    if vocabulary_size < SMALLEST_VOCABULARY:
        raise InputError(f"a vocabulary of {vocabulary_size} tokens is too small", "set it to 300 or more")
    # Rare scripts would spend pieces on single letters; 200 letters cover Latin text and its signs.
    trained = load_tokenizer(_PATTERN).train_new_from_iterator(
        iter(texts), vocabulary_size, limit_alphabet=200, show_progress=False
    )
    return cast(PreTrainedTokenizerFast, trained)


def load_tokenizer(base: str | Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of an existing base model, or of a run."""
    # The tokenizer of a run does not have a model next to it.
    address = str(base) if Path(base).is_dir() else find_source(str(base)).address
    try:
        tokenizer = AutoTokenizer.from_pretrained(address)
    except Exception as error:  # a damaged file can end in any
        raise InputError(
            f"{base} does not contain a tokenizer", "use a folder or hub id of a masked language model"
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(
            f"{base} does not have a fast tokenizer",
            "choose another base: whole-word masking needs a fast tokenizer",
        )
    for name in ("mask_token", "cls_token", "sep_token", "pad_token"):
        if getattr(tokenizer, name) is None:
            raise InputError(
                f"the tokenizer of {base} does not have a {name}", "use a masked language model as base"
            )
    return tokenizer
