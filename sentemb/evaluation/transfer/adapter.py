"""The two functions that the original SentEval asks of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb.encoding import TextEncoder, load_encoder

Vectors = npt.NDArray[np.float32]
Words = Sequence[str]

_EMPTY = "."
"""What SentEval's own examples encode in place of a sentence without words."""


def senteval_adapter(
    encoder: TextEncoder | str | Path | Any,
) -> tuple[Callable[[Any, Sequence[Words]], None], Callable[[Any, Sequence[Words]], Vectors]]:
    """What `senteval.engine.SE(params, batcher, prepare)` takes, for any encoder.

    The original sees a task's sentences in `prepare`, which encodes each different one once, in the order of
    lengths that is fastest; `batcher` looks their vectors up.

    Args:
        encoder: Anything that `load_encoder` takes.

    Returns:
        `prepare(params, samples)` and `batcher(params, batch)`; sentences are lists of words.

    Raises:
        InputError: The encoder cannot be used.

    Example:
        >>> prepare, batcher = senteval_adapter("sg-bert-mini")  # doctest: +SKIP
        >>> senteval.engine.SE(params, batcher, prepare).eval(["CR", "TREC"])  # doctest: +SKIP
    """
    loaded = load_encoder(encoder)
    known: dict[str, Vectors] = {}

    def learn(texts: Sequence[str]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in known))
        if new:
            known.update(zip(new, loaded.encode(new), strict=True))

    def prepare(params: Any, samples: Sequence[Words]) -> None:
        texts = [_text(words) for words in samples]
        for gone in set(known).difference(texts):  # of the task before
            del known[gone]
        learn(texts)

    def batcher(params: Any, batch: Sequence[Words]) -> Vectors:
        texts = [_text(words) for words in batch]
        learn(texts)
        return np.stack([known[text] for text in texts])

    return prepare, batcher


def _text(words: Words) -> str:
    plain = [word.decode("utf-8") if isinstance(word, bytes) else str(word) for word in words]
    return " ".join(plain).strip() or _EMPTY
