"""Losses of pairs and triples on batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from torch import Tensor, nn

from sentemb.losses.gradient_cache import SentenceGradientCache
from sentemb.losses.paraphrase_contrast import Negatives, ParaphraseContrastLoss
from sentemb.losses.simcse import SimCSELoss


class CachedSimCSELoss(SentenceGradientCache, SimCSELoss):
    """`SimCSELoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    Sentences, pairs and triples; the two views of a single column are encoded under dropout masks of their
    own, in the first pass and again in the second. There is no masked-language-model term, which compares
    nothing within a batch.

    Inputs:
        Those of `SimCSELoss`.

    Args:
        model: The encoder to train.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        temperature: See `SimCSELoss`, as for all that follow.
        head: `train-only`, `two-layer` or None.
        hard_negative_weight: Added to the logit of an anchor's own hard negatives.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, or the encoder cannot take a batch in parts.

    Example:
        >>> loss = CachedSimCSELoss(encoder, head=None, mini_batch_size=64)  # in batches of 4096, say

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        mini_batch_size: int = 32,
        temperature: float = 0.05,
        head: Literal["train-only", "two-layer"] | None = "train-only",
        hard_negative_weight: float = 0.0,
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model,
            temperature=temperature,
            head=head,
            hard_negative_weight=hard_negative_weight,
            gather_across_devices=gather_across_devices,
        )
        self.encode_in(mini_batch_size)
        self._dropout_views = False

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts per column.
            labels: Ignored.

        Returns:
            A scalar whose backward pass encodes the batch again.
        """
        columns = list(sentence_features)
        self._dropout_views = len(columns) == 1
        return self.cached_loss(columns * 2 if self._dropout_views else columns, labels)

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Loss of sentence vectors.

        Args:
            embeddings: Anchors, positives, then any number of hard negatives, each `(b, d)`.
            labels: Ignored.

        Returns:
            A scalar.

        Raises:
            InputError: Fewer than two tensors.
        """
        if self._dropout_views:
            self._check_views_differ(*embeddings)
        return super().compute_loss_from_embeddings(embeddings, labels)

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        options = super().get_config_dict()
        del options["mlm_weight"]
        return options


class CachedParaphraseContrastLoss(SentenceGradientCache, ParaphraseContrastLoss):
    """`ParaphraseContrastLoss` with the gradient cache of Gao et al. (2021): the same loss in bounded memory.

    Inputs:
        Those of `ParaphraseContrastLoss`.

    Args:
        model: The encoder to train.
        mini_batch_size: Rows that are encoded at a time; 32 as in sentence-transformers' cached losses.
        temperature: See `ParaphraseContrastLoss`, as for all that follow.
        negatives: `signed`, `denominator` or `ignored`.
        negative_weight: Factor of the maximised terms.
        clamp: Loss above which a term is not maximised any further, or None.
        head: `two-layer` or None.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, or the encoder cannot take a batch in parts.

    Example:
        >>> loss = CachedParaphraseContrastLoss(encoder, mini_batch_size=64)  # in batches of 4096, say

    Reference:
        Gao et al.: Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021.
        https://aclanthology.org/2021.repl4nlp-1.31
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        mini_batch_size: int = 32,
        temperature: float = 0.05,
        negatives: Negatives = "signed",
        negative_weight: float = 1.0,
        clamp: float | None = None,
        head: Literal["two-layer"] | None = "two-layer",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model,
            temperature=temperature,
            negatives=negatives,
            negative_weight=negative_weight,
            clamp=clamp,
            head=head,
            gather_across_devices=gather_across_devices,
        )
        self.encode_in(mini_batch_size)
