"""Static encoders: the mean of token vectors, bit for bit as sentence-transformers computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.nn.functional import embedding_bag, normalize

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.static_tokens import StaticTokens, settings_of

# Upstream's batches of 32 spend as long on each batch as on its texts.
_TEXTS_PER_BATCH = 4096
_CHARACTERS_PER_BATCH = 1 << 20  # tokenizing takes some thirty bytes for each

_tokens: WeakKeyDictionary[nn.Module, StaticTokens] = WeakKeyDictionary()  # what models in use have tokenized


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
    weight, tokenize = model[0].embedding.weight, _tokens_of(model[0])
    vectors = torch.empty(len(texts), weight[:1, : model.truncate_dim].shape[1])
    lengths = np.empty(len(texts), dtype=np.int64)
    for some in _batches(texts):
        ids, counts = tokenize([prompt + text for text in texts[some]] if prompt else texts[some])
        starts = torch.from_numpy(np.cumsum(counts) - counts)
        means = embedding_bag(torch.from_numpy(ids), weight, starts, mode="mean")
        means = normalize(means) if len(model) > 1 else means
        vectors[some], lengths[some] = means[:, : model.truncate_dim], counts
    return vectors.numpy(), lengths


def _tokens_of(module: StaticEmbedding) -> StaticTokens:
    """Return what tokenizes for a module; it starts again if the module's tokenizer has changed."""
    tokens = _tokens.get(module)
    if (
        tokens is None
        or tokens.tokenizer is not module.tokenizer
        or tokens.settings != settings_of(module.tokenizer)
    ):
        tokens = _tokens[module] = StaticTokens(module.tokenizer)
    return tokens


def _batches(texts: Sequence[str]) -> Iterator[slice]:
    """Divide texts into batches of bounded size; a longer text is one of its own."""
    start = size = 0
    for row, text in enumerate(texts):
        size += len(text)
        if row > start and (size > _CHARACTERS_PER_BATCH or row - start == _TEXTS_PER_BATCH):
            yield slice(start, row)
            start, size = row, len(text)
    yield slice(start, len(texts))
