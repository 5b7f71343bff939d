"""Heads that map the output of an encoder to the logits of classes: linear, LaCon's two, LEAM and LSAN.

A head stays with a classifier after training, so it says how it was made: `config()` gives JSON, of which
`build_head` makes the same head again.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, full_precision
from sentemb.errors import InputError

_INITIAL_DEVIATION = 0.02
"""BERT's initializer_range."""

_FLAGS = ("last_relu", "relu", "train_labels")


class ClassificationHead(nn.Module, ABC):
    """Base class of heads that map the output of a SentenceTransformer to logits.

    A subclass names its `kind`, is listed in `HEADS` under it, and passes the arguments of its constructor to
    `keep`.

    Example:
        >>> isinstance(LinearHead(8, 3), ClassificationHead)
        True
    """

    kind: ClassVar[str]
    """Name in `HEADS` and in saved configurations."""

    width: int
    classes: int

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

    def keep(self, **arguments: Any) -> None:
        """Keep arguments of the constructor as attributes; raise InputError if one is out of range."""
        for name, value in arguments.items():
            if name == "dropout":
                check_probability(name, value)
            elif name == "temperature":
                if not (_is_finite(value) and value > 0):
                    raise _out_of_range(name, value, "use a finite number above 0")
            elif name in _FLAGS:
                if not isinstance(value, bool):  # such as a string in a configuration file
                    raise _out_of_range(name, value, "use true or false")
            else:
                check_count(name, value, least=0 if name == "layers" else 1)
            setattr(self, name, value)

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
        self.keep(width=width, classes=classes, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.linear = linear_layer(width, classes)

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of the sentence vectors, `(b, classes)`."""
        vectors: Tensor = features["sentence_embedding"]  # (b, d)
        check_width(vectors, self.width)
        logits: Tensor = self.linear(self.drop(vectors.to(self.linear.weight.dtype)))  # (b, classes)
        return logits


class LabelHead(ClassificationHead):
    """Head with a learned vector per class: the nearest one wins (LaCon-vanilla, Zhang et al., 2022).

    With g a projection head on the encoder's vector E(x), and L_1 to L_C the label vectors::

        H_x = g(E(x)),   logit_p = cos(H_x, L_p) / temperature

    The paper uses the last hidden state of `[CLS]` as E(x), which is `pooling="cls"` in the encoder.

    Args:
        width: Width d of the sentence vector, of all layers of g and of the label vectors.
        classes: Number C of classes.
        layers: Linear layers of g, 3 in the paper; 0 compares the encoder's vectors directly (ablation).
        last_relu: Whether a ReLU follows the last linear layer too; "ReLU for each hidden layer" (section
            2.1) implies that it does not.
        temperature: tau; 0.1, as the paper recommends 0.1 to 0.2 (section 4.4).

    Attributes:
        label_vectors: The learned label vectors, `(classes, width)`, drawn from N(0, 0.02); the paper does
            not specify a distribution. Only their direction matters.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls")
        >>> head = LabelHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = LaConLoss(encoder, head)
    """

    kind: ClassVar[str] = "label"
    temperature: float

    def __init__(
        self, width: int, classes: int, *, layers: int = 3, last_relu: bool = False, temperature: float = 0.1
    ) -> None:
        super().__init__()
        self.keep(width=width, classes=classes, layers=layers, last_relu=last_relu, temperature=temperature)
        self.label_vectors = label_table(classes, width)
        modules: list[nn.Module] = []
        for _ in range(layers):
            modules += [linear_layer(width, width), nn.ReLU()]
        self.projection = nn.Sequential(*(modules if last_relu else modules[:-1]))

    def embed(self, features: Mapping[str, Any]) -> Tensor:
        """Compute H from the sentence vectors, `(b, d)`; raise InputError if their width differs."""
        vectors: Tensor = features["sentence_embedding"]  # (b, d)
        check_width(vectors, self.width)
        return self.project(vectors)

    def project(self, vectors: Tensor) -> Tensor:
        """Apply g to vectors `(b, d)`, in the type of the head's weights, or in that of autocast."""
        projected: Tensor = self.projection(vectors.to(self.label_vectors.dtype))  # (b, d)
        return projected

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`, in float32, or in float64 if the head is float64."""
        return cosine_similarity(self.embed(features), self.label_vectors) / self.temperature


class FusionHead(LabelHead):
    """LaCon-fusion: `LabelHead` on a label-aware mean of the tokens instead of the sentence vector (Eq. 9).

    With z what `LabelAttention` makes of the hidden states and the label vectors::

        H_x = g(z),   logit_p = cos(H_x, L_p) / temperature

    Args:
        width, classes, layers, last_relu, temperature: As for `LabelHead`.
        window: Tokens that the convolution sees; the paper does not say how many.
        relu: Whether a ReLU follows the convolution, as in LEAM; Eq. 9 shows none.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = FusionHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = LaConLoss(encoder, head)
    """

    kind: ClassVar[str] = "label-fusion"

    def __init__(
        self,
        width: int,
        classes: int,
        *,
        layers: int = 3,
        last_relu: bool = False,
        temperature: float = 0.1,
        window: int = 5,
        relu: bool = True,
    ) -> None:
        super().__init__(width, classes, layers=layers, last_relu=last_relu, temperature=temperature)
        self.keep(window=window, relu=relu)
        self.attention = LabelAttention(classes, window=window, relu=relu)

    def embed(self, features: Mapping[str, Any]) -> Tensor:
        """Compute H from the label-aware means, `(b, d)`."""
        states, attended = token_states(features, width=self.width)
        return self.project(self.attention(states, attended, self.label_vectors))


class LeamHead(ClassificationHead):
    """LEAM on an encoder's hidden states (Wang et al., 2018): `LabelAttention` and a classifier.

    The classifier is a hidden layer with ReLU, with dropout before both of its linear layers. `LeamLoss` also
    trains it to classify the label vectors.

    Args:
        width: Width d of the hidden states and label vectors.
        classes: Number of classes.
        window: Window of the convolution in tokens; 5. The authors' code uses 55 for texts of 300 words.
        hidden: Width of the classifier's hidden layer, 300 in the paper.
        dropout: Probability, 0.5 in the paper.

    Attributes:
        label_vectors: `(classes, width)`, drawn from N(0, 0.02). The paper starts from word vectors of the
            labels' names, but these do not lie in the space of the hidden states.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = LeamHead(encoder.get_embedding_dimension(), classes=14)
        >>> loss = LeamLoss(encoder, head)
    """

    kind: ClassVar[str] = "leam"

    def __init__(
        self, width: int, classes: int, *, window: int = 5, hidden: int = 300, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.keep(width=width, classes=classes, window=window, hidden=hidden, dropout=dropout)
        self.label_vectors = label_table(classes, width)
        self.attention = LabelAttention(classes, window=window)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            linear_layer(width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            linear_layer(hidden, classes),
        )

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`."""
        states, attended = token_states(features, width=self.width)
        pooled = self.attention(states, attended, self.label_vectors)  # (b, d)
        logits: Tensor = self.classifier(pooled.to(self.label_vectors.dtype))  # (b, classes)
        return logits

    def label_logits(self) -> Tensor:
        """Compute the classifier's logits of the label vectors, `(classes, classes)`."""
        logits: Tensor = self.classifier(self.label_vectors)  # (classes, classes)
        return logits


class LabelAttention(nn.Module):
    """Mean of the tokens of a text, each weighted by how similar its context is to any label.

    With E_t the hidden state of token t, including `[CLS]` and `[SEP]`, and L_p the label vectors::

        G_tp = cos(E_t, L_p)
        m_t  = max over p of ReLU(convolution of G over positions)
        z    = sum_t softmax(m)_t E_t

    The convolution has C input and C output channels and a window of `window` tokens, an odd number. Padding
    is zero in the convolution and has weight 0 in the mean.
    """

    def __init__(self, classes: int, *, window: int, relu: bool = True) -> None:
        super().__init__()
        if window % 2 == 0:
            raise InputError(
                f"window of a classification head is {window}",
                "use an odd number, so that the window has a center",
            )
        self.relu = relu
        self.convolution = nn.Conv1d(classes, classes, window, padding=window // 2)
        # The initialiser of the framework that LEAM's code is written in.
        nn.init.xavier_uniform_(self.convolution.weight)
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]

    def forward(self, states: Tensor, attended: Tensor, label_vectors: Tensor) -> Tensor:
        """Pool the tokens of each text, `(b, d)`."""
        similarity = cosine_similarity(states, label_vectors).mT  # (b, classes, t)
        scores = self.convolution(similarity.to(self.convolution.weight.dtype))  # (b, classes, t)
        strongest = full_precision(scores.relu() if self.relu else scores).amax(1)  # (b, t)
        weights = masked_softmax(strongest, attended).to(states.dtype)  # (b, t)
        return (weights.unsqueeze(1) @ states).squeeze(1)  # (b, d)


class LsanHead(ClassificationHead):
    """LSAN on an encoder's hidden states, for one label per text (Xiao et al., 2019; Zhang et al., 2022).

    With E_t the hidden states, L_p the label vectors and s the logistic function, label p sees the text as::

        self-attention    S_p = sum_t a_tp E_t,   a_.p = softmax over t of (W2 tanh(W1 E_t))_p
        label attention   A_p = sum_t (L_p . E_t) E_t
        adaptive fusion   D_p = w_p A_p + (1 - w_p) S_p,   w_p = s(u . A_p) / (s(u . A_p) + s(v . S_p))

    and the logits are a linear layer on the mean of D over the labels. The hidden states replace the authors'
    bidirectional LSTM, and softmax with `CrossEntropyLoss` replaces their sigmoids. Padding is ignored.

    Args:
        width: Width d of the hidden states and label vectors.
        classes: Number of classes.
        hidden: Width of W1's output, 200 in the authors' code.
        train_labels: Whether to train the label vectors. The authors' code does not train them.

    Attributes:
        label_vectors: `(classes, width)`, drawn from N(0, 0.02) and saved even if they are not trained.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> head = LsanHead(encoder.get_embedding_dimension(), classes=14)
        >>> loss = CrossEntropyLoss(encoder, head)

    Reference:
        Xiao et al.: Label-Specific Document Representation for Multi-Label Text Classification. EMNLP 2019.
        https://aclanthology.org/D19-1044
    """

    kind: ClassVar[str] = "lsan"
    train_labels: bool

    def __init__(self, width: int, classes: int, *, hidden: int = 200, train_labels: bool = False) -> None:
        super().__init__()
        self.keep(width=width, classes=classes, hidden=hidden, train_labels=train_labels)
        self.label_vectors = label_table(classes, width)
        self.token_scores = nn.Sequential(
            linear_layer(width, hidden), nn.Tanh(), linear_layer(hidden, classes)
        )
        self.label_gate = linear_layer(width, 1)
        self.self_gate = linear_layer(width, 1)
        self.output = linear_layer(width, classes)

    def forward(self, features: Mapping[str, Any]) -> Tensor:
        """Compute the logits of a batch, `(b, classes)`."""
        states, attended = token_states(features, width=self.width)
        states = states.to(self.label_vectors.dtype)  # (b, t, d)
        scores = full_precision(self.token_scores(states)).mT  # (b, classes, t)
        weights = masked_softmax(scores, attended.unsqueeze(1)).to(states.dtype)  # (b, classes, t)
        by_itself = weights @ states  # (b, classes, d)
        # Always parameters, so that sharing a head among processes includes them.
        labels = self.label_vectors if self.train_labels else self.label_vectors.detach()  # (classes, d)
        by_label = (labels @ states.mT) @ states  # (b, classes, d)
        logits: Tensor = self.output(self._fuse(by_label, by_itself).mean(1))  # (b, classes)
        return logits

    def _fuse(self, by_label: Tensor, by_itself: Tensor) -> Tensor:
        """Combine both kinds of attention, `(b, classes, d)`."""
        label_gate = nn.functional.logsigmoid(self.label_gate(by_label))  # (b, classes, 1)
        self_gate = nn.functional.logsigmoid(self.self_gate(by_itself))  # (b, classes, 1)
        # The quotient of the docstring in a form that is not 0 / 0 when both gates are closed.
        share = torch.sigmoid(label_gate - self_gate)  # (b, classes, 1)
        return share * by_label + (1 - share) * by_itself


def label_table(classes: int, width: int) -> nn.Parameter:
    """Draw new label vectors."""
    return nn.Parameter(_INITIAL_DEVIATION * torch.randn(classes, width))


def token_states(features: Mapping[str, Any], *, width: int) -> tuple[Tensor, Tensor]:
    """Return the hidden states that a head attends to, and their mask."""
    states, mask = features.get("token_embeddings"), features.get("attention_mask")
    if not (isinstance(states, Tensor) and isinstance(mask, Tensor) and states.ndim == 3):
        raise InputError(
            "this classification head needs the hidden states of padded texts",
            "use a transformer encoder, and set model[0].unpad_inputs = False",
        )
    check_width(states, width)
    attended = mask.bool()
    # Values at padded positions, even infinities, must not reach a sum with weight 0.
    return full_precision(states).masked_fill(~attended.unsqueeze(2), 0), attended


def masked_softmax(scores: Tensor, attended: Tensor) -> Tensor:
    """Apply softmax over the last dimension, ignoring padding."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~attended, lowest).softmax(-1).masked_fill(~attended, 0)


HEADS: dict[str, type[ClassificationHead]] = {
    head.kind: head for head in (LinearHead, LabelHead, FusionHead, LeamHead, LsanHead)
}
"""Classes of heads by kind."""


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
    head_class = HEADS[kind]
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
    nn.init.normal_(layer.weight, std=_INITIAL_DEVIATION)
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
        raise _out_of_range(option, value, f"use an integer of at least {least}")


def check_probability(option: str, value: Any) -> None:
    """Raise InputError if the value is not a dropout probability."""
    if not (_is_finite(value) and 0 <= value < 1):
        raise _out_of_range(option, value, "use a number of at least 0 and below 1")


def _out_of_range(option: str, value: Any, hint: str) -> InputError:
    return InputError(f"{option} of a classification head is {value!r}", hint)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
