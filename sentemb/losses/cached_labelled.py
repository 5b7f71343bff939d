"""SCL and LaCon on batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from sentemb.losses.classification import Representation, text_column
from sentemb.losses.cross_entropy_supcon import CrossEntropySupConLoss
from sentemb.losses.functional_labels import Denominator, Slices
from sentemb.losses.gradient_cache import GradientCache
from sentemb.losses.lacon import LaConLoss
from sentemb.losses.supcon import Reduction


class CachedCrossEntropySupConLoss(GradientCache, CrossEntropySupConLoss):
    """`CrossEntropySupConLoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    Encoder and head work in mini-batches, so any head will do. The sum of both components is one number.

    Inputs:
        Those of `CrossEntropySupConLoss`.

    Args:
        model: The encoder to train.
        head: See `CrossEntropySupConLoss`, as for all that follow `mini_batch_size`.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        temperature: tau.
        weight: lambda.
        representation: `cls` or `sentence`.
        reduction: `mean` or `sum`.
        gather_across_devices: Compare with the rows of all processes.

    Raises:
        InputError: An option is out of range, or the encoder or the head cannot take a batch in parts.

    Example:
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CachedCrossEntropySupConLoss(encoder, head, mini_batch_size=64)  # in batches of 1024, say

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        mini_batch_size: int = 32,
        temperature: float = 0.3,
        weight: float = 0.9,
        representation: Representation = "cls",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model,
            head,
            temperature=temperature,
            weight=weight,
            representation=representation,
            reduction=reduction,
            gather_across_devices=gather_across_devices,
        )
        self.encode_in(mini_batch_size)

    def forward(  # type: ignore[override]
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The sum of the weighted components, whose backward pass encodes the batch again.

        Raises:
            InputError: More than one text column, or labels that are no classes of the head.
        """
        return self.cached_loss([text_column(sentence_features, loss=type(self).__name__)], labels)


class CachedLaConLoss(GradientCache, LaConLoss):
    """`LaConLoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    ICL and LCL compare vectors of single texts with label vectors and LER label vectors alone, so all of it
    can be cached: H is computed in mini-batches, with a `FusionHead` too, which reads no tokens but a text's
    own, and the label vectors get their gradient from the whole batch. The sum of the components is one
    number.

    Inputs:
        Those of `LaConLoss`.

    Args:
        model: The encoder to train.
        head: See `LaConLoss`, as for all that follow `mini_batch_size`.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        heads: m of ICL, or None.
        temperature: tau, or None for the head's.
        icl_weight: Factor of ICL.
        lcl_weight: Factor of LCL.
        ler_weight: lambda.
        denominator: Of LCL: `negatives`, `infonce` or `all`.
        slices: Of ICL: `renormalised` or `global`.
        average_positives: Divide the terms of a label by |A(p)|; LCL grows with the batch otherwise.
        gather_across_devices: Let LCL see the texts of all processes.

    Raises:
        InputError: An option is out of range, or the encoder cannot take a batch in parts.

    Example:
        >>> head = LabelHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CachedLaConLoss(encoder, head, mini_batch_size=64, average_positives=True)

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        mini_batch_size: int = 32,
        heads: int | None = None,
        temperature: float | None = None,
        icl_weight: float = 1.0,
        lcl_weight: float = 1.0,
        ler_weight: float = 0.5,
        denominator: Denominator = "negatives",
        slices: Slices = "renormalised",
        average_positives: bool = False,
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model,
            head,
            heads=heads,
            temperature=temperature,
            icl_weight=icl_weight,
            lcl_weight=lcl_weight,
            ler_weight=ler_weight,
            denominator=denominator,
            slices=slices,
            average_positives=average_positives,
            gather_across_devices=gather_across_devices,
        )
        self.encode_in(mini_batch_size)

    def forward(  # type: ignore[override]
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The sum of the weighted components, whose backward pass encodes the batch again.

        Raises:
            InputError: More than one text column, or labels that are no classes of the head.
        """
        return self.cached_loss([text_column(sentence_features, loss=type(self).__name__)], labels)
