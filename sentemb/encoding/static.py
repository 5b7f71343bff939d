"""Static encoders: the mean of token vectors, where nearly all time goes to the tokenizer.

A tokenizer normalizes a text, splits it at blanks and punctuation, and looks each part up. Of a part in plain
ASCII normalizing is lower-casing, and a part that came before needs nothing at all. So the words, or clauses,
of all texts are tokenized once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
_WORD = re.compile(rf"[^ {_SIGNS}]+|[{_SIGNS}]")
_SIGN = re.compile(rf"([{_SIGNS}])")

_MOST_BYTES = 1.1  # per character, of a text that is worth cutting
_MOST_KEPT = 1 << 20  # tokens of parts that came before: some forty megabytes


@dataclass(frozen=True)
class _Cut:
    """What a pre-tokenizer does to plain text."""

    parts: Callable[[str], list[str]]
    """The parts of a text, each of which has the same tokens whatever stands beside it."""

    looked_up: Callable[[str], str]
    """A part as the model looks it up."""


def _clause(part: str) -> str:
    return BLANK + part.removeprefix(" ").replace(" ", BLANK) if part else ""


_CUTS = {
    BertPreTokenizer().__getstate__(): _Cut(_WORD.findall, str),
    CLAUSES.__getstate__(): _Cut(_SIGN.split, _clause),
}


class StaticTokens:
    """Token numbers as a tokenizer gives them, sooner.

    Args:
        tokenizer: The tokenizer. It does all itself where it is none of BERT's kind or of those that
            `sentemb distill` makes; where it is one, texts with its special tokens and parts in other
            characters than plain ASCII.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._model = Tokenizer(tokenizer.model)
        self._cut = _cut_of(tokenizer)
        self._lowercase = self._cut is not None and tokenizer.normalizer.lowercase
        added = (token.content for token in tokenizer.get_added_tokens_decoder().values())
        self._special = re.compile("|".join(map(re.escape, added)) or "(?!)")
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The token numbers of each text, without those that a tokenizer puts around it."""
        if self._cut is None:
            return _ids(self._tokenizer, texts)
        special, cut = self._special.search, self._cut.parts
        parts = [
            cut(text.replace("\n", " ")) if _is_mostly_ascii(text) and not special(text) else [text]
            for text in texts
        ]
        if sum(map(len, self._known.values())) > _MOST_KEPT:
            self._known.clear()
        self._learn(set(chain.from_iterable(parts)).difference(self._known), self._cut.looked_up)
        known = self._known.__getitem__
        return [list(chain.from_iterable(map(known, some))) for some in parts]

    def _learn(self, parts: Iterable[str], looked_up: Callable[[str], str]) -> None:
        """Tokenise parts that are new."""
        plain: list[str] = []
        other: list[str] = []
        for part in parts:
            is_plain = part.isascii() and part.isprintable() and not self._special.search(part)
            (plain if is_plain else other).append(part)
        ready = [looked_up(part.lower() if self._lowercase else part) for part in plain]
        self._known.update(zip(plain, _ids(self._model, ready), strict=True))
        self._known.update(zip(other, _ids(self._tokenizer, other), strict=True))


def _cut_of(tokenizer: Tokenizer) -> _Cut | None:
    """How to cut for a tokenizer, where its tokens depend on one part at a time."""
    added = tokenizer.get_added_tokens_decoder().values()
    if (
        not isinstance(tokenizer.model, Unigram | WordPiece)
        or not isinstance(tokenizer.normalizer, BertNormalizer)
        or not tokenizer.normalizer.clean_text  # which makes a new line a blank
        or tokenizer.pre_tokenizer is None
        or tokenizer.truncation is not None
        or tokenizer.padding is not None
        or any(token.normalized or len(token.content.split()) != 1 for token in added)
    ):
        return None
    return _CUTS.get(tokenizer.pre_tokenizer.__getstate__())


def _is_mostly_ascii(text: str) -> bool:
    """Whether cutting a text is worth it: a part beyond ASCII costs as much as a text."""
    return text.isascii() or len(text.encode("utf-8", "replace")) < _MOST_BYTES * len(text)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


# Upstream's batches of 32 spend as long on each batch as on its texts.
_TEXTS_PER_BATCH = 2048


def is_static_model(model: SentenceTransformer) -> bool:
    """Whether a model on the CPU looks tokens up, takes their mean, may scale it to length 1, and no more."""
    kinds = [type(module) for module in model]
    return (
        kinds in ([StaticEmbedding], [StaticEmbedding, Normalize])
        and model.device.type == "cpu"
        and not any("forward" in vars(module) for module in model.modules())
    )


def encode_static(model: SentenceTransformer, texts: Sequence[str], *, prompt: str = "") -> Vectors:
    """Encode with a model of which `is_static_model` is true, bit for bit as its own `encode` does.

    Args:
        model: The model.
        texts: The texts, at least one.
        prompt: What stands before each text.

    Returns:
        float32 array of shape (len(texts), dimension).
    """
    return encode_and_count(model, texts, prompt=prompt)[0]


@torch.inference_mode()
def encode_and_count(
    model: SentenceTransformer, texts: Sequence[str], *, prompt: str = ""
) -> tuple[Vectors, NDArray[np.int64]]:
    """As `encode_static`, with the number of tokens of each text, (len(texts),), its prompt included."""
    module, parts, counts = model[0], [], []
    tokenise = StaticTokens(module.tokenizer)
    for first in range(0, len(texts), _TEXTS_PER_BATCH):
        batch = [prompt + text for text in texts[first : first + _TEXTS_PER_BATCH]]
        tokens = tokenise(batch)
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        joined = np.fromiter(chain.from_iterable(tokens), dtype=np.int64, count=int(lengths.sum()))
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)
        means = embedding_bag(torch.from_numpy(joined), module.embedding.weight, starts, mode="mean")
        parts.append(normalize(means) if len(model) > 1 else means)
        counts.append(lengths)
    vectors: Vectors = torch.cat(parts)[:, : model.truncate_dim].float().numpy()
    return vectors, np.concatenate(counts)
