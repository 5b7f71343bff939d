"""SupCon and SupCL-Seq on batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from torch import Tensor, nn

from sentemb.losses.classification import Representation, text_column
from sentemb.losses.dropout_views import dropout_probability
from sentemb.losses.gradient_cache import GradientCache, SentenceGradientCache
from sentemb.losses.supcl_seq import SupCLSeqLoss
from sentemb.losses.supcon import Reduction, SupConLoss

_PROBABILITY = "dropout probability"  # key of a column that is to be encoded under one


class CachedSupConLoss(SentenceGradientCache, SupConLoss):
    """`SupConLoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    The batch is encoded in mini-batches without a graph, the loss sends its gradient to the vectors, and
    every mini-batch is encoded again, under the same dropout, to take that gradient into the encoder. Memory
    is that of one mini-batch, time about that of one more forward.

    Inputs:
        Those of `SupConLoss`.

    Args:
        model: The encoder to train.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        temperature: See `SupConLoss`, as for all that follow.
        anchors: `all` or `one`.
        reduction: `mean` or `sum`.
        gather_across_devices: Compare with the rows of all processes.
        preset: `released` or None.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> loss = CachedSupConLoss(encoder, mini_batch_size=64)  # in batches of 2048, say

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        mini_batch_size: int = 32,
        temperature: float = 0.07,
        anchors: Literal["all", "one"] = "all",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model,
            temperature=temperature,
            anchors=anchors,
            reduction=reduction,
            gather_across_devices=gather_across_devices,
            preset=preset,
        )
        self.encode_in(mini_batch_size)


class CachedSupCLSeqLoss(GradientCache, SupCLSeqLoss):
    """`SupCLSeqLoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    Every view is encoded in mini-batches under its own dropout probability, in the first pass and again in
    the second.

    Inputs:
        Those of `SupCLSeqLoss`.

    Args:
        model: The encoder to train.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        dropouts: See `SupCLSeqLoss`, as for all that follow.
        temperature: Divides the cosine.
        representation: `sentence` or `cls`.
        reduction: `mean` or `sum`.
        gather_across_devices: Compare with the rows of all processes.
        preset: `released` or None.

    Raises:
        InputError: An option is out of range, or the encoder has no dropout.

    Example:
        >>> loss = CachedSupCLSeqLoss(encoder, mini_batch_size=16, dropouts=(0.0, 0.1, 0.2, 0.3, 0.4))

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        mini_batch_size: int = 32,
        dropouts: tuple[float, ...] = (0.0, 0.1, 0.2),
        temperature: float = 0.05,
        representation: Representation = "sentence",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model,
            dropouts=dropouts,
            temperature=temperature,
            representation=representation,
            reduction=reduction,
            gather_across_devices=gather_across_devices,
            preset=preset,
        )
        self.encode_in(mini_batch_size)

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class of each row, `(b,)`, or None.

        Returns:
            A scalar whose backward pass encodes the batch again.

        Raises:
            InputError: More than one text column, or gradient checkpointing.
        """
        features = text_column(sentence_features, loss=type(self).__name__)
        columns = [{**features, _PROBABILITY: probability} for probability in self.next_views()]
        return self.cached_loss(columns, labels)

    def embed_minibatch(self, sentence_feature: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Encode a mini-batch of a view under the view's dropout probability.

        Args:
            sentence_feature: The view's column.
            *args: Handed through to the gradient cache.
            **kwargs: Handed through to the gradient cache.

        Returns:
            What the gradient cache returns.
        """
        features = dict(sentence_feature)
        with dropout_probability(self.model, features.pop(_PROBABILITY)):
            return super().embed_minibatch(features, *args, **kwargs)
