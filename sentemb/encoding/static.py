"""Static encoders: the mean of token vectors, where nearly all time goes to the tokenizer.

A tokenizer normalizes a text, splits it at blanks and punctuation, and looks each part up. Normalizing a part
in plain ASCII is lower-casing, and a part that came before needs nothing at all. So the words, or clauses, of
all texts are tokenized once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace, Punctuation
from tokenizers.pre_tokenizers import Sequence as Steps
from torch.nn.functional import embedding_bag, normalize

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.encoding.encoder import Vectors

BLANK = "▁"
"""What a Unigram model has for a blank; one stands before the first word too."""
CLAUSES = Steps([Punctuation("isolated"), Metaspace(BLANK, "always", split=False)])
"""Leaves the words between two signs together, so that a token may be more than one."""

_SIGNS = r"!-/:-@\[-`{-~"  # ASCII's punctuation, as a range of a regular expression
_MOST_BYTES = 1.1  # per character, of a text that is worth splitting
_MOST_KEPT = 1 << 20  # tokens of parts that came before: some forty megabytes
# Upstream's batches of 32 spend as long on each batch as on its texts.
_TEXTS_PER_BATCH = 2048


# By pre-tokenizer: what splits plain text into parts, each of which has the same tokens in any text; and how
# the model looks a part up.
_SPLITTERS: dict[bytes, tuple[Callable[[str], list[str]], Callable[[str], str]]] = {
    BertPreTokenizer().__getstate__(): (re.compile(rf"[^ {_SIGNS}]+|[{_SIGNS}]").findall, str),
    CLAUSES.__getstate__(): (
        re.compile(rf"([{_SIGNS}])").split,
        lambda part: BLANK + part.removeprefix(" ").replace(" ", BLANK) if part else "",
    ),
}


class StaticTokens:
    """Token ids as a tokenizer gives them, sooner if it is of BERT's kind or made by `sentemb distill`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._model = Tokenizer(tokenizer.model)
        self._splitter = (
            _SPLITTERS.get(tokenizer.pre_tokenizer.__getstate__()) if _splits(tokenizer) else None
        )
        self._lowercase = self._splitter is not None and tokenizer.normalizer.lowercase
        added = (token.content for token in tokenizer.get_added_tokens_decoder().values())
        self._special = re.compile("|".join(map(re.escape, added)) or "(?!)")
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without those that a tokenizer puts around it."""
        if self._splitter is None:
            return _ids(self._tokenizer, texts)
        split, look_up = self._splitter
        special = self._special.search
        parts = [
            split(text.replace("\n", " ")) if _is_mostly_ascii(text) and not special(text) else [text]
            for text in texts
        ]
        if sum(map(len, self._known.values())) > _MOST_KEPT:
            self._known.clear()
        self._learn(set(chain.from_iterable(parts)).difference(self._known), look_up)
        known = self._known.__getitem__
        return [list(chain.from_iterable(map(known, some))) for some in parts]

    def _learn(self, parts: Iterable[str], look_up: Callable[[str], str]) -> None:
        """Tokenize parts that are new."""
        plain: list[str] = []
        other: list[str] = []
        for part in parts:
            is_plain = part.isascii() and part.isprintable() and not self._special.search(part)
            (plain if is_plain else other).append(part)
        ready = [look_up(part.lower() if self._lowercase else part) for part in plain]
        self._known.update(zip(plain, _ids(self._model, ready), strict=True))
        self._known.update(zip(other, _ids(self._tokenizer, other), strict=True))


def _splits(tokenizer: Tokenizer) -> bool:
    """Return whether the tokens of a text depend on one of its parts at a time."""
    added = tokenizer.get_added_tokens_decoder().values()
    return (
        isinstance(tokenizer.model, Unigram | WordPiece)
        and isinstance(tokenizer.normalizer, BertNormalizer)
        and tokenizer.normalizer.clean_text  # which makes a new line a blank
        and tokenizer.pre_tokenizer is not None
        and tokenizer.truncation is None
        and tokenizer.padding is None
        and not any(token.normalized or len(token.content.split()) != 1 for token in added)
    )


def _is_mostly_ascii(text: str) -> bool:
    """Return whether splitting a text is worth it: a part beyond ASCII costs as much as a text."""
    return text.isascii() or len(text.encode("utf-8", "replace")) < _MOST_BYTES * len(text)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def is_static_model(model: SentenceTransformer) -> bool:
    """Return whether a model on the CPU looks tokens up, takes their mean, may normalize it, and no more."""
    kinds = [type(module) for module in model]
    return (
        kinds in ([StaticEmbedding], [StaticEmbedding, Normalize])
        and model.device.type == "cpu"
        and not any("forward" in vars(module) for module in model.modules())
    )


@torch.inference_mode()
def encode_static(
    model: SentenceTransformer, texts: Sequence[str], *, prompt: str = ""
) -> tuple[Vectors, NDArray[np.int64]]:
    """Encode texts, at least one, with a static model, bit for bit as its own `encode` does; count tokens."""
    module, parts, counts = model[0], [], []
    tokenise = StaticTokens(module.tokenizer)
    for first in range(0, len(texts), _TEXTS_PER_BATCH):
        tokens = tokenise([prompt + text for text in texts[first : first + _TEXTS_PER_BATCH]])
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        joined = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=int(lengths.sum()))
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)
        means = embedding_bag(torch.from_numpy(joined), module.embedding.weight, starts, mode="mean")
        parts.append(normalize(means) if len(model) > 1 else means)
        counts.append(lengths)
    vectors: Vectors = torch.cat(parts)[:, : model.truncate_dim].float().numpy()
    return vectors, np.concatenate(counts)
