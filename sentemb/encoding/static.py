"""Static encoders: the mean of token vectors, where nearly all time goes to the tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch.nn.functional import embedding_bag, normalize

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.static_tokens import StaticTokens

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
