"""Heads that map the output of an encoder to the logits of classes.

A head stays with a classifier after training, so it says how it was made: `config()` gives JSON, of which
`build_head` makes the same head again.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor, nn

from sentemb.errors import InputError

HEADS = {
    "linear": "sentemb.modules.heads:LinearHead",
    "label": "sentemb.modules.labels:LabelHead",
    "label-fusion": "sentemb.modules.label_fusion:FusionHead",
    "leam": "sentemb.modules.label_fusion:LeamHead",
    "lsan": "sentemb.modules.label_attention:LsanHead",
}
"""Kinds of heads and where their classes are, as `module:class`; imported when they are asked for."""

INITIAL_DEVIATION = 0.02
"""BERT's initializer_range."""


class ClassificationHead(nn.Module, ABC):
    """Base class of heads that map the output of a SentenceTransformer to logits.

    A subclass names its `kind`, is listed in `HEADS` under it, and keeps the arguments of its constructor as
    attributes of the same names.

    Example:
        >>> isinstance(LinearHead(8, 3), ClassificationHead)
        True
    """

    kind: ClassVar[str]
    """Name in `HEADS` and in saved configurations."""

    classes: int
    """Number of classes."""

    @abstractmethod
    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch.

        Args:
            features: What a SentenceTransformer returns: `sentence_embedding` `(b, d)`, `token_embeddings`
                `(b, t, d)`, `attention_mask` `(b, t)`; left unchanged.

        Returns:
            `(b, classes)`, in the type of the head's weights, or in that of autocast.

        Raises:
            InputError: The encoder gives no such vectors, or not as wide as the head.
        """

    def config(self) -> dict[str, Any]:
        """Return `kind` and the constructor's arguments as JSON values, for `build_head`."""
        names = inspect.signature(type(self)).parameters
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}}


class LinearHead(ClassificationHead):
    """The classifier of BERT's fine-tuning: dropout and one linear layer on the sentence vector.

    With `pooling="cls-mlp"` in the encoder this is the standard head of transformers' BERT: the pooler's
    Dense + tanh, dropout, linear.

    Args:
        width: Width d of the sentence vector.
        classes: Number of classes.
        dropout: Probability, 0.1 as in BERT's configuration.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp")
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
    """

    kind: ClassVar[str] = "linear"

    def __init__(self, width: int, classes: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        check_count("width", width)
        check_count("classes", classes)
        check_probability("dropout", dropout)
        self.width = width
        self.classes = classes
        self.dropout = dropout
        self.drop = nn.Dropout(dropout)
        self.linear = linear_layer(width, classes)

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of the sentence vectors, `(b, classes)`."""
        vectors: Tensor = features["sentence_embedding"]  # (b, d)
        check_width(vectors, self.width)
        logits: Tensor = self.linear(self.drop(vectors.to(self.linear.weight.dtype)))  # (b, classes)
        return logits


def build_head(config: Mapping[str, Any]) -> ClassificationHead:
    """Build a newly initialised head from the result of `ClassificationHead.config`.

    Args:
        config: `kind` and the arguments of its constructor.

    Returns:
        The head.

    Raises:
        InputError: The kind is unknown, or its arguments do not fit.

    Example:
        >>> head = build_head(LinearHead(8, 3).config())
    """
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    if not isinstance(kind, str) or kind not in HEADS:
        raise InputError(f"unknown classification head {kind!r}", f"choose one of {', '.join(HEADS)}")
    module, name = HEADS[kind].split(":")
    head_class: type[ClassificationHead] = getattr(import_module(module), name)
    try:
        inspect.signature(head_class).bind(**arguments)
    except TypeError as error:
        raise InputError(
            f"the configuration of the head {kind!r} is invalid: {error}",
            "pass kind and the arguments of its constructor, as returned by config()",
        ) from error
    return head_class(**arguments)


def linear_layer(width: int, outputs: int) -> nn.Linear:
    """Build a linear layer with the initialisation of BERT: weights from N(0, 0.02), biases 0."""
    layer = nn.Linear(width, outputs)
    nn.init.normal_(layer.weight, std=INITIAL_DEVIATION)
    nn.init.zeros_(layer.bias)
    return layer


def check_width(vectors: Tensor, width: int) -> None:
    """Raise InputError if the head was not built for vectors of this width."""
    if vectors.shape[-1] != width:
        raise InputError(
            f"the encoder's vectors have {vectors.shape[-1]} dimensions, but the head expects {width}",
            "build the head with width=model.get_embedding_dimension()",
        )


def check_count(option: str, value: Any, *, least: int = 1) -> None:
    """Raise InputError if the value is not an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            f"{option} of a classification head is {value!r}", f"use an integer of at least {least}"
        )


def check_flag(option: str, value: Any) -> None:
    """Raise InputError if the value is not a boolean, such as a string in a configuration file."""
    if not isinstance(value, bool):
        raise InputError(f"{option} of a classification head is {value!r}", "use true or false")


def check_temperature(value: Any) -> None:
    """Raise InputError if the value is not a finite number above 0."""
    if not (_is_finite(value) and value > 0):
        raise InputError(f"temperature of a classification head is {value!r}", "use a finite number above 0")


def check_probability(option: str, value: Any) -> None:
    """Raise InputError if the value is not a dropout probability."""
    if not (_is_finite(value) and 0 <= value < 1):
        raise InputError(
            f"{option} of a classification head is {value!r}", "use a number of at least 0 and below 1"
        )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
