"""Static encoders: the mean of token vectors, bit for bit as sentence-transformers computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import nn
from torch.nn.functional import embedding_bag, normalize

from sentemb._compat import Normalize, StaticEmbedding
from sentemb._threads import one_thread_each
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


def encode_static(
    model: SentenceTransformer, texts: Sequence[str], *, prompt: str = ""
) -> tuple[Vectors, NDArray[np.int64]]:
    """Encode texts, at least one, with a static model, bit for bit as its own `encode` does; count tokens."""
    weight, tokenize = model[0].embedding.weight, _tokens_of(model[0])
    vectors = np.empty((len(texts), weight[:1, : model.truncate_dim].shape[1]), dtype=np.float32)
    lengths = np.empty(len(texts), dtype=np.int64)

    @torch.inference_mode()
    def average(some: slice, ids: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        starts = torch.from_numpy(np.cumsum(counts) - counts)
        means = embedding_bag(torch.from_numpy(ids), weight, starts, mode="mean")
        means = normalize(means) if len(model) > 1 else means
        vectors[some] = means[:, : model.truncate_dim].float().numpy()

    with _in_turn(len(texts)) as do:
        for some in _batches(texts):
            ids, counts = tokenize([prompt + text for text in texts[some]] if prompt else texts[some])
            lengths[some] = counts
            do(average, some, ids, counts)
    return vectors, lengths


@contextmanager
def _in_turn(texts: int) -> Iterator[Callable[..., object]]:
    """Yield what calls a function: for many texts in a thread, while the next batch is tokenized."""
    # Autocast would not reach another thread.
    if texts <= _TEXTS_PER_BATCH or torch.get_num_threads() == 1 or torch.is_autocast_enabled("cpu"):
        yield lambda function, *given: function(*given)
        return
    with one_thread_each() as pool:
        last: Future[None] | None = None

        def follow(function: Callable[..., None], *given: object) -> None:
            nonlocal last
            if last is not None:
                last.result()  # so that no more than two batches are held
            last = pool.submit(function, *given)

        yield follow
        if last is not None:
            last.result()


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
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = characters = 0
    while start < len(texts):
        fitting = int(np.searchsorted(ends, characters + _CHARACTERS_PER_BATCH, side="right"))
        end = min(start + _TEXTS_PER_BATCH, max(start + 1, fitting))
        yield slice(start, end)
        start, characters = end, int(ends[end - 1])
