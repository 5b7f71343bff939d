"""Cross-entropy and an unsupervised contrastive term between two dropout views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb.losses._options import check_choice, check_number
from sentemb.losses.classification import cross_entropy, head_on_device, text_column
from sentemb.losses.dropout_views import encode_views
from sentemb.losses.functional import info_nce, nt_xent
from sentemb.losses.gather import gather_rows
from sentemb.losses.owned import OwnedWeights

_NAME = "CrossEntropyContrastLoss"

Form = Literal["consert", "simcse"]


class CrossEntropyContrastLoss(OwnedWeights):
    """Fine-tuning with a contrastive term between two dropout views, CE+CL (ConSERT; Yan et al., 2021).

    Every row is encoded twice in one forward; z_i and z'_i are its vectors. CE is the head's mean
    cross-entropy on the first view, phi(x, y) = exp(cos(x, y) / temperature)::

        loss    = CE + weight * contrast
        consert   1 / b * sum over the 2b vectors x of -log( phi(x, partner of x) / sum_{y != x} phi(x, y) )
        simcse    1 / b * sum_i -log( phi(z_i, z'_i) / sum_j phi(z_i, z'_j) )

    ConSERT adds both directions, so its term is twice a mean over 2b vectors. A batch of one has contrast 0.
    Duplicated texts are negatives of each other.

    Inputs:
        +----------+--------+
        | Texts    | Labels |
        +==========+========+
        | sentence | class  |
        +----------+--------+

    Args:
        model: The encoder to train, with dropout in it.
        head: From what the encoder returns to logits, such as `LinearHead`; the loss owns its weights.
        weight: alpha; 0.15 in ConSERT.
        temperature: Divides the cosine; 0.1 in ConSERT.
        form: `consert`, or the one-directional `simcse`, which is what LaCon's "InfoNCE" may be.
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = build_encoder("bert-base-uncased", pooling="cls-mlp")
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CrossEntropyContrastLoss(encoder, head)
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Yan et al.: ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer. ACL
        2021. https://aclanthology.org/2021.acl-long.393
    """

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        weight: float = 0.15,
        temperature: float = 0.1,
        form: Form = "consert",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__()
        check_number(_NAME, "weight", weight, low=0, inclusive=True)
        check_number(_NAME, "temperature", temperature, low=0)
        check_choice(_NAME, "form", form, get_args(Form))
        self.model = model
        self.head = head_on_device(head, model, loss=_NAME)
        self.weight = weight
        self.temperature = temperature
        self.form: Form = form
        self.gather_across_devices = gather_across_devices

    @property
    def scale(self) -> float:
        """Factor of the cosine, `1 / temperature`."""
        return 1 / self.temperature

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The weighted components `ce` and `contrast`.

        Raises:
            InputError: More than one text column, or labels that are no classes of the head.
        """
        features = text_column(sentence_features, loss=_NAME)
        first, second = encode_views(self.model, features, (None, None))
        vectors = [first["sentence_embedding"], second["sentence_embedding"]]  # each (b, d)
        return self.compute_loss_from_embeddings([self.head(first), *vectors], labels)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Loss of logits and the vectors of two views.

        Args:
            embeddings: The head's logits, `(b, classes)`, then both views, each `(b, d)`.
            labels: Class numbers from 0, `(b,)`.

        Returns:
            The weighted components.
        """
        logits, *views = embeddings
        entropies = cross_entropy(logits, labels, loss=_NAME)  # (b,)
        rows, anchors, share = gather_rows(
            torch.stack(views, dim=1), across_devices=self.gather_across_devices
        )  # (n, 2, d)
        objective = nt_xent if self.form == "consert" else info_nce
        contrast = objective(*rows.unbind(1), temperature=self.temperature, anchors=anchors)  # (2b,) or (b,)
        contrast = contrast.sum() / len(logits)
        return {"ce": share * entropies.mean(), "contrast": self.weight * share * contrast}

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card."""
        return {
            "head": type(self.head).__name__,
            "weight": self.weight,
            "temperature": self.temperature,
            "form": self.form,
            "gather_across_devices": self.gather_across_devices,
        }

    @property
    def citation(self) -> str:
        """BibTeX of the paper."""
        return """
@inproceedings{yan-etal-2021-consert,
    title = "{ConSERT}: A Contrastive Framework for Self-Supervised Sentence Representation Transfer",
    author = "Yan, Yuanmeng and Li, Rumei and Wang, Sirui and Zhang, Fuzheng and Wu, Wei and Xu, Weiran",
    booktitle = "Proceedings of the 59th Annual Meeting of the Association for Computational Linguistics",
    year = "2021",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/2021.acl-long.393",
    pages = "5065--5075",
}
"""
