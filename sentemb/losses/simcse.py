"""SimCSE: dropout as the only augmentation, entailment pairs, hard negatives."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb._compat import embed_columns
from sentemb.errors import InputError
from sentemb.losses._options import check_choice, check_number
from sentemb.losses.encoder import dtype_of, pooling_names, transformer_module, unwrap
from sentemb.losses.functional import info_nce
from sentemb.losses.gather import gather_rows
from sentemb.losses.heads import contrast_head, train_only_head
from sentemb.losses.masked_language import MaskedLanguageHead
from sentemb.losses.owned import OwnedWeights

logger = logging.getLogger(__name__)

_HEADS = {"train-only": train_only_head, "two-layer": contrast_head}


class SimCSELoss(OwnedWeights):
    """Contrastive loss of SimCSE, unsupervised and supervised (Gao et al., 2021).

    With z_i the head's output for an anchor, z'_i for its positive and phi(x, y) = exp(cos(x, y) /
    temperature)::

        loss_i = -log( phi(z_i, z'_i) / sum_j [ phi(z_i, z'_j) + exp(w * 1[i = j]) * phi(z_i, z*_j) ] )

    in one direction, averaged over the batch; the z* terms exist with hard negatives only. With a single text
    column the positive is the same text under another dropout mask: the batch is doubled and encoded in one
    forward, in which every row draws a mask of its own. A batch of one sentence without hard negatives gives
    loss 0. Duplicated texts in a batch are negatives of each other, as in the paper.

    Inputs:
        +-----------------------------------------------+--------+
        | Texts                                         | Labels |
        +===============================================+========+
        | sentence                                      | none   |
        +-----------------------------------------------+--------+
        | anchor, positive                              | none   |
        +-----------------------------------------------+--------+
        | anchor, positive, hard negative 1, ..., n     | none   |
        +-----------------------------------------------+--------+

    Under several processes with unequal last batches the mean stays that of one process. The poolers of the
    paper map
    to: `cls` with `head="train-only"` (unsupervised), the encoder's own Dense + tanh after CLS with
    `head=None` (supervised), `cls_before_pooler` and all averages with `head=None`.

    Args:
        model: The encoder to train.
        temperature: Divides the cosine; 0.05 in the paper (section 3).
        head: `train-only` puts a fresh Linear + tanh on the CLS vector; it belongs to the loss, so a saved
            model never contains it (unsupervised SimCSE). `two-layer` puts two linear layers there (Chen,
            CS224N). None takes the encoder's vectors as they are.
        hard_negative_weight: w above, added to the logit of an anchor's own hard negatives; 0 in the released
            code.
        mlm_weight: Factor of the auxiliary masked-language-model term; 0 leaves it out as most of the paper
            does, 0.1 is its value where it is used. The term masks 15 % of the tokens of every text in a
            forward of its own and needs a base model saved with its pretrained masked-language-model head.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range, a head on an encoder that is not plain CLS, or no
            pretrained head for `mlm_weight`.

    Example:
        >>> encoder = build_encoder("bert-base-uncased", pooling="cls", max_length=32)
        >>> loss = SimCSELoss(encoder)
        >>> trainer = SentembTrainer(model=encoder, train_dataset=sentences, loss=loss)

    Reference:
        Gao, Yao and Chen: SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021.
        https://aclanthology.org/2021.emnlp-main.552
    """

    owned_modules: ClassVar[tuple[str, ...]] = ("head", "masked_language")

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        head: Literal["train-only", "two-layer"] | None = "train-only",
        hard_negative_weight: float = 0.0,
        mlm_weight: float = 0.0,
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__()
        check_number("SimCSELoss", "temperature", temperature, low=0)
        check_choice("SimCSELoss", "head", head, (*_HEADS, None))
        check_number("SimCSELoss", "hard_negative_weight", hard_negative_weight, low=-math.inf)
        check_number("SimCSELoss", "mlm_weight", mlm_weight, low=0, inclusive=True)
        self.model = model
        self.temperature = temperature
        self.hard_negative_weight = hard_negative_weight
        self.gather_across_devices = gather_across_devices
        self.head: nn.Sequential | None = None
        if head is not None:
            _check_plain_cls(model, head)
            self.head = _HEADS[head](_width(model)).to(_device(model))
        self._head_name = head
        self.mlm_weight = mlm_weight
        self.masked_language: MaskedLanguageHead | None = None
        if mlm_weight > 0:
            self.masked_language = MaskedLanguageHead(transformer_module(model, loss="SimCSELoss"))
        self._views_checked = False

    @property
    def scale(self) -> float:
        """Factor of the cosine, `1 / temperature`."""
        return 1 / self.temperature

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts per column.
            labels: Ignored.

        Returns:
            A scalar; with `mlm_weight` the weighted components `contrast` and `mlm`.
        """
        columns = list(sentence_features)
        dropout_views = len(columns) == 1
        if dropout_views:
            columns = columns * 2
        # Copies: the encoder writes its output into the dict that it is given.
        embeddings = embed_columns(
            self.model, [dict(c) for c in columns], separate_first=False
        )  # each (b, d)
        if dropout_views:
            self._check_views_differ(*embeddings)
        contrast = self.compute_loss_from_embeddings(embeddings, labels)
        if self.masked_language is None:
            return contrast
        return {
            "contrast": contrast,
            "mlm": self.mlm_weight * self._masked_language_loss(self.masked_language, columns),
        }

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
        if len(embeddings) < 2:
            raise InputError(
                "SimCSELoss compares at least two vectors per sentence", "give anchors and positives"
            )
        vectors = torch.stack(embeddings, dim=1)  # (b, columns, d)
        if self.head is not None:
            vectors = self.head(vectors.to(dtype_of(self.head)))
        rows, anchors, weight = gather_rows(vectors, across_devices=self.gather_across_devices)
        first, second, *hard_negatives = rows.unbind(1)  # each (n, d)
        losses = info_nce(
            first,
            second,
            temperature=self.temperature,
            hard_negatives=hard_negatives,
            hard_negative_weight=self.hard_negative_weight,
            anchors=anchors,
        )
        return weight * losses.mean()

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        return {
            "temperature": self.temperature,
            "head": self._head_name,
            "hard_negative_weight": self.hard_negative_weight,
            "mlm_weight": self.mlm_weight,
            "gather_across_devices": self.gather_across_devices,
        }

    @property
    def citation(self) -> str:
        """BibTeX of the paper."""
        return """
@inproceedings{gao-etal-2021-simcse,
    title = "{SimCSE}: Simple Contrastive Learning of Sentence Embeddings",
    author = "Gao, Tianyu and Yao, Xingcheng and Chen, Danqi",
    booktitle = "Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing",
    year = "2021",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/2021.emnlp-main.552",
    pages = "6894--6910",
}
"""

    def _masked_language_loss(self, head: MaskedLanguageHead, columns: list[dict[str, Any]]) -> Tensor:
        """Mean over the masked positions of all columns; each view of a text is masked anew, as published."""
        # The transformer alone: poolings over layers overwrite the token vectors.
        transformer = transformer_module(self.model, loss="SimCSELoss")
        losses = []
        for features in columns:
            masked, labels = head.mask(features)
            losses.append(head(transformer(masked)["token_embeddings"], labels))
        every = torch.cat(losses)  # (m,)
        return every.sum() / max(1, len(every))

    def _check_views_differ(self, first: Tensor, second: Tensor) -> None:
        """Warn once, in the first training step, when dropout does not make two views of a text."""
        if self._views_checked or not first.requires_grad:
            return
        self._views_checked = True
        if torch.equal(first, second):
            logger.warning(
                "The two views of every sentence are identical, so SimCSELoss has nothing to learn from: "
                "the encoder has no dropout or is in evaluation mode. Set hidden_dropout_prob of the base "
                "model (0.1 in the paper) and call model.train()."
            )


def _check_plain_cls(model: nn.Module, head: str) -> None:
    pooling = pooling_names(model)
    if pooling not in (("cls",), None):
        raise InputError(
            f"head={head!r} belongs on the CLS vector, this encoder pools by {', '.join(pooling or ())}",
            "pass head=None, or build the encoder with pooling='cls'",
        )
    if any(type(module).__name__ == "Dense" for module in unwrap(model).children()):
        raise InputError(
            f"head={head!r} would come on top of the Dense layer that this encoder has",
            "pass head=None",
        )


def _width(model: nn.Module) -> int:
    return int(unwrap(model).get_embedding_dimension())  # type: ignore[operator]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
