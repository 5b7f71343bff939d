"""Texts to one vector per layer and pooling, all from one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from sentemb._compat import Transformer
from sentemb.encoding.resolve import name_of
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.view import view_with_states, with_modules
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.modules.layer_pooling import LayerPooling


class LayerEncoder:
    """The layers of a transformer, pooled without whatever its model does after the last."""

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        poolings: Sequence[str] = ("cls", "mean", "max"),
        device: str | None = None,
        max_length: int | None = None,
    ) -> None:
        if isinstance(model, SentenceTransformer):
            name = name_of(model)
        else:
            name = name_of(str(model))
            model = load(model, pooling="mean", device=device, max_length=max_length)
        if not isinstance(model[0], Transformer):
            raise InputError(
                f"{name} starts with {type(model[0]).__name__}, which does not have layers",
                "pass a transformer model",
            )
        transformer = view_with_states(model[0])
        self.poolings = tuple(poolings)
        self.layers = int(transformer.model.config.num_hidden_layers) + 1
        self.width = int(transformer.get_embedding_dimension())
        pooling = LayerPooling(self.width, self.layers - 1, self.poolings)
        self.name = name
        self._encoder = SentenceEncoder(with_modules(model, [transformer, pooling]), name=name)

    @property
    def fingerprint(self) -> str:
        """Hash of the transformer's weights, tokenizer and the poolings."""
        return self._encoder.fingerprint

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> npt.NDArray[np.float32]:
        """Encode texts, each unique one once."""
        vectors = self._encoder.encode(texts, progress=progress)
        return vectors.reshape(len(vectors), self.layers, len(self.poolings), self.width)

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return self._encoder.describe()
