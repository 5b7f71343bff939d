"""What an adaptation trains, on what and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.adaptation.pairs import Pair
from sentemb.compression.prune import layers_of
from sentemb.data.columns import LABEL
from sentemb.encoding.encoder import TextEncoder, Vectors
from sentemb.encoding.roles import for_role
from sentemb.errors import InputError

Weights = Mapping[str, Tensor]


def weights_of(model: SentenceTransformer) -> dict[str, Tensor]:
    """Return a copy of a model's weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def blend(model: SentenceTransformer, base: Weights, trained: Weights, share: float) -> None:
    """Set a model's weights between those of the base and the trained ones; integers stay those of the base.

    Their mean often keeps what the base knew and adds what was learned (Wortsman et al.: Robust Fine-Tuning
    of Zero-Shot Models. CVPR 2022). A share of 0 is the base, also where training has diverged.
    """
    model.load_state_dict(
        {
            name: torch.lerp(tensor, trained[name], share) if share and tensor.is_floating_point() else tensor
            for name, tensor in base.items()
        }
    )


def train_last_layers(model: SentenceTransformer, count: int) -> None:
    """Freeze everything but the last layers of the transformer, and what comes after them.

    Raises:
        InputError: The model does not have layers, or has fewer.
    """
    layers = layers_of(model)
    if layers is None:
        raise InputError("the base does not have layers that could be trained alone", "remove --layers")
    if count > len(layers):
        raise InputError(f"the base has {len(layers)} layers, not {count}", "lower --layers")
    model[0].requires_grad_(False)
    for layer in layers[-count:]:
        layer.requires_grad_(True)


def in_order(dataset: Any, batch_size: int, drop_last: bool, **kwargs: Any) -> BatchSampler:
    """Return batches of rows in their order, for `batch_sampler=` of sentence-transformers' trainer."""
    return BatchSampler(SequentialSampler(dataset), batch_size, drop_last)


class MinutesCallback(TrainerCallback):
    """Saves and ends training when its time is over. A resumed run has the whole time again.

    Args:
        minutes: The time.

    Attributes:
        over: Whether a training ended because of it.
    """

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.over = False
        self._began = time.monotonic()

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End the training if its time is over."""
        if time.monotonic() - self._began > self.seconds:
            self.over = state.global_step < state.max_steps
            control.should_save = control.should_training_stop = True


def label_with_teacher(
    pairs: Sequence[Pair], teacher: TextEncoder, encode: Callable[[TextEncoder, Sequence[str]], Vectors]
) -> Dataset:
    """Label pairs with the teacher's vectors of both texts, as `InBatchDistillationLoss` takes them.

    Args:
        pairs: The pairs.
        teacher: It encodes queries as queries, and documents as documents.
        encode: Encodes texts by an encoder.

    Returns:
        The pairs in their order.
    """
    queries, documents = ([pair[side] for pair in pairs] for side in (0, 1))
    sides = [
        encode(for_role(teacher, "query"), queries),
        encode(for_role(teacher, "document"), documents),
    ]
    vectors = np.hstack(sides).astype(np.float32, copy=False)
    labels = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return Dataset(pa.table({"query": queries, "document": documents, LABEL: labels}))
