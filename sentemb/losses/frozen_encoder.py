"""The frozen encoder of self-guidance and the views of its layers."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from sentemb._compat import get_rank
from sentemb.errors import InputError
from sentemb.losses.encoder import fingerprint
from sentemb.losses.functional import ViewPooling, pool_tokens
from sentemb.losses.gather import counts_of


class FrozenEncoder(nn.Module):
    """BERT_F: a copy of the transformer that never trains and pools each of its layers into a view.

    It stays in evaluation mode even if `train()` is called on it or on the loss that holds it, so its views
    depend on the text alone. The copy is a plain transformers model: the trainer would replace a
    SentenceTransformer with the model in training.

    Args:
        transformer: The transformer to copy, before any part of it is frozen.
        layers: Half-open range over the hidden states, from 0 (embedding output) to the number of layers.
            None as the end includes the last layer.
        pooling: `max` or `mean` over tokens.
        dropout: Follow `train()`, as the authors' code does, so that dropout adds noise to the views during
            training.

    Raises:
        InputError: The range is empty or exceeds the hidden states.
    """

    def __init__(
        self,
        transformer: nn.Module,
        *,
        layers: tuple[int, int | None] = (0, None),
        pooling: ViewPooling = "max",
        dropout: bool = False,
    ) -> None:
        super().__init__()
        states = _hidden_state_count(transformer)
        self.layers = _layer_range(layers, states)
        self.pooling: ViewPooling = pooling
        self.dropout = dropout
        self.transformer = copy.deepcopy(transformer).requires_grad_(False)
        self._inputs = frozenset(inspect.signature(transformer.forward).parameters)
        self.train(transformer.training)

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return int(self.transformer.config.get_text_config().hidden_size)  # type: ignore[union-attr, operator]

    def identity(self) -> str:
        """Return a key of everything that the views depend on except the text."""
        checksum = bytes(fingerprint(self.transformer).tolist()).hex()
        return f"{checksum} {self.layers} {self.pooling}"

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Stay in evaluation mode, unless built with `dropout=True`."""
        super().train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, features: dict[str, Any]) -> Tensor:
        """Compute the views of a batch."""
        inputs = {name: value for name, value in features.items() if name in self._inputs}
        # Views are computed in the encoder's own precision, so that cached and fresh views agree.
        with torch.autocast(features["input_ids"].device.type, enabled=False):
            output = self.transformer(**inputs, output_hidden_states=True, return_dict=True)
        mask = features["attention_mask"]  # (b, t)
        pooled = [pool_tokens(output.hidden_states[k], mask, pooling=self.pooling) for k in self.layers]
        return torch.stack(pooled, dim=1)  # (b, l, d)


def _layer_range(layers: object, states: int) -> range:
    if isinstance(layers, list | tuple) and len(layers) == 2:
        start, end = layers[0], states if layers[1] is None else layers[1]
        if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= states:
            return range(start, end)
    raise InputError(
        f"layers {layers!r} are outside the hidden states 0 to {states - 1} of this encoder",
        f"set layers to (first, end) with 0 <= first < end <= {states}",
    )


def _hidden_state_count(transformer: nn.Module) -> int:
    config = transformer.config.get_text_config()  # type: ignore[union-attr, operator]
    return int(config.num_hidden_layers) + 1


def sample_layer(views: Tensor) -> Tensor:
    """Draw one layer per sentence, uniformly and independently, from torch's CPU random numbers.

    All processes have the same seed, so each draws for all of them and takes its own part. The draws are
    those of a single process with the whole batch, and restoring torch's generator restores them.
    """
    counts = counts_of(views)
    drawn = torch.randint(views.shape[1], (sum(counts),))  # (rows of all processes,)
    start = sum(counts[: get_rank()])
    layer = drawn[start : start + len(views)].view(-1, 1, 1).to(views.device)  # (b, 1, 1)
    return views.gather(1, layer.expand(-1, 1, views.shape[2]))
