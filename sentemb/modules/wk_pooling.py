"""WK pooling: a sentence vector from all hidden states, weighted by what a layer adds to its neighbours.

The method needs only the cosines of a token's states, a K x K matrix per token. They are computed in float64:
neighbouring layers are so similar that their differences would be lost in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sentemb._compat import Module
from sentemb._vectors import full_precision
from sentemb.errors import InputError

# Values below this count as 0: a squared sine that float64 cannot distinguish from a rounding error of 1.
_TINY = 1e-12
# Size of a block in the float64 copy of the hidden states: 4 MiB fit into the caches of a CPU.
_BLOCK_CPU = 2**19
_BLOCK_ACCELERATOR = 2**26


class WKPooling(Module):
    """SBERT-WK's pooling of the tokens and layers of an encoder.

    With `x_0 .. x_{K-1}` a token's states in the layers `layer_start .. l`, the context of layer k holds up
    to `window` states on either side of it. P projects onto the span of the context::

        a_k     = mean over c in the context of cos(c, P x_k)
        align_k = 1 / (a_k (|context| + 1)),   novelty_k = |x_k - P x_k| / |x_k|,   each scaled to sum 1
        token   = sum_k (align_k + novelty_k) / 2 * x_k
        weight  = variance over k of cos(x_k, x_{k+1}), scaled to sum 1 over the tokens
        vector  = sum over tokens of weight * token

    [CLS] counts as a token; the last token ([SEP]) does not. Weights are uniform where the formulas are
    undefined: over the layers of a token with a zero state, with linearly dependent states in a context, or
    with some `a_k` not above 0 (`align` only); and over the tokens of a text whose variances are all 0.

    The module is not part of sentence-transformers. Load a saved model that contains it with `sentemb.load`.

    Args:
        embedding_dimension: Width d of the hidden states.
        num_hidden_layers: Layers l of the transformer; it has l + 1 hidden states.
        layer_start: First hidden state used, 0 being the embedding output; 4 in SBERT-WK's released code.
        window: States on either side; 2 in the released code.
        clip_left: Clip the contexts of the first layers like those of the last. In the released code, and so
            in the published results, the contexts of the first `window` layers do not extend to the left.

    Raises:
        InputError: An argument is out of range, or a layer would be left without a context.

    Example:
        >>> model = load("bert-mini", pooling="wk")
        >>> model.encode(["a cat sat"]).shape
        (1, 256)

    Reference:
        Wang and Kuo: SBERT-WK: A Sentence Embedding Method by Dissecting BERT-based Word Models. IEEE/ACM
        TASLP 28, 2020. https://arxiv.org/abs/2002.06652
    """

    config_keys = [  # noqa: RUF012
        "embedding_dimension",
        "num_hidden_layers",
        "layer_start",
        "window",
        "clip_left",
    ]

    def __init__(
        self,
        embedding_dimension: int,
        num_hidden_layers: int,
        *,
        layer_start: int = 4,
        window: int = 2,
        clip_left: bool = False,
    ) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension
        self.num_hidden_layers = num_hidden_layers
        self.layer_start = layer_start
        self.window = window
        self.clip_left = clip_left
        if window < 1 or layer_start < 0:
            raise InputError(
                f"WK pooling is not defined for a window of {window} from layer {layer_start}",
                "use a window of at least 1 and a first layer of at least 0",
            )
        # Without clipping the last layer has a context only if it is not among the first `window`.
        highest = num_hidden_layers - (1 if clip_left else window)
        if layer_start > highest:
            raise InputError(
                f"WK pooling from layer {layer_start} with a window of {window} leaves a layer "
                f"without context in a model of {num_hidden_layers} layers",
                f"start at layer {highest} or below" if highest >= 0 else "use another pooling",
            )

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Pool `all_layer_embeddings`, l + 1 times `(b, t, d)`, to `sentence_embedding` `(b, d)`."""
        states = features.get("all_layer_embeddings")
        if states is None or len(states) != self.num_hidden_layers + 1:
            raise InputError(
                f"WK pooling needs the {self.num_hidden_layers + 1} hidden states of its transformer",
                "build the model with load(base, pooling='wk')",
            )
        features["sentence_embedding"] = wk_pooling(
            states[self.layer_start :],
            features["attention_mask"],
            window=self.window,
            clip_left=self.clip_left,
        )
        return features

    def get_embedding_dimension(self) -> int:
        """Return the width of the sentence vectors."""
        return self.embedding_dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the configuration; there are no weights."""
        self.save_config(output_path)

    def __repr__(self) -> str:
        # The model card shows this, and a reader of the card has to know.
        return f"{super().__repr__()}, a module of sentemb: load this model with sentemb.load"


def wk_pooling(layers: Sequence[Tensor], mask: Tensor, *, window: int = 2, clip_left: bool = False) -> Tensor:
    """Pool hidden states; see `WKPooling`."""
    with torch.autocast(layers[0].device.type, enabled=False):
        cosines = _cosines(layers)  # (K, K, b t)
        contexts = _contexts(len(layers), window=window, clip_left=clip_left)
        by_layer = _layer_weights(cosines, contexts).view(-1, *mask.shape)  # (K, b, t)
        by_token = _token_weights(cosines, mask.to(cosines.device))  # (b, t)
        weights = by_layer * by_token  # (K, b, t)
        parts = [
            weight.unsqueeze(1).to(states) @ states  # (b, 1, d)
            for weight, states in zip(weights, map(full_precision, layers), strict=True)
        ]
        return torch.cat(parts, 1).sum(1).to(layers[0].dtype)


def _cosines(layers: Sequence[Tensor]) -> Tensor:
    """Compute the cosines of each token's states with each other, (K, K, b t); 0 for a zero state."""
    tokens = [states.flatten(0, 1) for states in layers]  # K times (b t, d)
    # Apple's GPUs have no float64.
    device = torch.device("cpu") if tokens[0].device.type == "mps" else tokens[0].device
    block = _BLOCK_CPU if device.type == "cpu" else _BLOCK_ACCELERATOR
    rows = max(1, block // (len(layers) * layers[0].shape[2]))
    products = []
    for parts in zip(*(torch.split(states, rows) for states in tokens), strict=True):
        stacked = torch.stack(parts, 1).to(device, torch.float64)  # (rows, K, d)
        products.append(stacked @ stacked.mT)  # (rows, K, K)
    product = torch.cat(products).permute(1, 2, 0).contiguous()  # (K, K, b t)
    squares = product.diagonal().T  # (K, b t)
    scale = squares.where(squares > 0, 1).rsqrt()  # (K, b t)
    return product * scale * scale.unsqueeze(1)


def _contexts(count: int, *, window: int, clip_left: bool) -> list[list[int]]:
    """Return the layers that each layer is compared with."""
    contexts = []
    for layer in range(count):
        left = range(max(0, layer - window), layer) if clip_left or layer >= window else ()
        right = range(layer + 1, min(count, layer + 1 + window))
        contexts.append([*left, *right])
    return contexts


def _layer_weights(cosines: Tensor, contexts: Sequence[Sequence[int]]) -> Tensor:
    """Compute the weight of every layer in every token, (K, b t), summing to 1 over K."""
    count = len(contexts)
    sizes = cosines.new_tensor([len(context) for context in contexts]).unsqueeze(1)  # (K, 1)
    residual, independent = _residuals(cosines, contexts)  # (K, b t), (b t)
    novelty = residual.clamp_min(_TINY).sqrt()  # |x - P x| / |x|
    share = torch.stack(
        [cosines[layer, context].mean(0) for layer, context in enumerate(contexts)]
    )  # (K, b t): mean of cos(c, x); for c in the span, c . x = c . P x
    projected = (1 - residual).clamp_min(_TINY).sqrt()  # |P x| / |x|
    aligned = independent & (share > _TINY).all(0)  # (b t)
    alignment = projected / (share.where(aligned, 1) * (sizes + 1))
    novelty = (novelty / novelty.sum(0)).where(independent, 1 / count)
    alignment = (alignment / alignment.sum(0)).where(aligned, 1 / count)
    return (novelty + alignment) / 2


def _residuals(cosines: Tensor, contexts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Compute the squared length of each state outside the span of its context, for all layers and tokens.

    Gaussian elimination on the cosines of a context, bordered by the state's: the last entry is the residual.
    """
    width = max(map(len, contexts))
    # A shorter context is padded with unit vectors that are orthogonal to all others, layer -1.
    padded = [[*context, *[-1] * (width - len(context)), layer] for layer, context in enumerate(contexts)]
    index = torch.tensor(padded, device=cosines.device).T  # (width + 1, K)
    real = (index[:, None] >= 0) & (index[None] >= 0)  # (width + 1, width + 1, K)
    identity = torch.eye(width + 1, device=cosines.device, dtype=cosines.dtype)[..., None, None]
    matrix = cosines[index[:, None], index[None]].where(real.unsqueeze(-1), identity)
    independent = torch.ones(cosines.shape[2], dtype=torch.bool, device=cosines.device)
    for _ in range(width):
        pivot = matrix[0, 0]  # (K, tokens)
        independent &= (pivot > _TINY).all(0)
        matrix = matrix[1:, 1:] - matrix[1:, :1] * (matrix[:1, 1:] / pivot.clamp_min(_TINY))
    return matrix[0, 0], independent


def _token_weights(cosines: Tensor, mask: Tensor) -> Tensor:
    """Compute the weight of every token in its text, (b, t), summing to 1 over t."""
    attended = mask.bool()
    position = attended.cumsum(1)  # (b, t), 1 at the first token wherever the padding is
    length = position[:, -1:]  # (b, 1)
    kept = attended & ((position < length) | (length == 1))  # without the last token, if there is another
    variance = cosines.diagonal(1).var(1, correction=0).view(mask.shape)  # (b, t)
    variance = variance.where(kept, 0)
    total = variance.sum(1, keepdim=True)  # (b, 1)
    varies = total > _TINY**2
    uniform = kept / kept.sum(1, keepdim=True).clamp_min(1)
    return (variance / total.where(varies, 1)).where(varies, uniform)
