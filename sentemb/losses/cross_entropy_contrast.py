"""Cross-entropy and an unsupervised contrastive term between two dropout views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb.losses.functional import info_nce, nt_xent
from sentemb.losses.labelled import ClassificationLoss
from sentemb.losses.views import View

Form = Literal["consert", "simcse"]


class CrossEntropyContrastLoss(ClassificationLoss):
    """Fine-tuning with a contrastive term between two dropout views, CE+CL (ConSERT; Yan et al., 2021).

    Every row is encoded twice in one forward; z_i and z'_i are its vectors. CE is the head's mean
    cross-entropy on the first view, phi(x, y) = exp(cos(x, y) / temperature)::

        loss    = CE + weight * contrast
        consert   1 / b * sum over the 2b vectors x of -log( phi(x, partner of x) / sum_{y != x} phi(x, y) )
        simcse    1 / b * sum_i -log( phi(z_i, z'_i) / sum_j phi(z_i, z'_j) )

    ConSERT adds both directions, so its term is twice a mean over 2b vectors. A batch of one has contrast 0.
    Duplicated texts are negatives of each other.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train; it needs dropout.
        head: Maps the encoder's output to logits, such as `LinearHead`. The loss owns its weights.
        weight: alpha; 0.15 in ConSERT.
        temperature: Divides the cosine; 0.1 in ConSERT.
        form: `consert`, or the one-directional `simcse`, which may be what LaCon calls "InfoNCE".
        gather_across_devices: Take in-batch negatives from all processes.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp")
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CrossEntropyContrastLoss(encoder, head)
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Yan et al.: ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer. ACL
        2021. https://aclanthology.org/2021.acl-long.393
    """

    references: ClassVar[tuple[str, ...]] = ("yan-etal-2021-consert",)

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
        super().__init__(model, head)
        self.weight = self.check_number("weight", weight, low=0, inclusive=True)
        self.temperature = self.check_number("temperature", temperature, low=0)
        self.form: Form = self.check_choice("form", form, get_args(Form))
        self.gather_across_devices = gather_across_devices

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return two views of the only text column."""
        return [View(self.one_column(sentence_features))] * 2

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the head's logits of the first view, `(b, classes)`, and the vectors of both, `(b, d)`."""
        vectors = output["sentence_embedding"]
        return [vectors] if view else [self.head(output), vectors]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `ce` and `contrast` from logits `(b, classes)` and the vectors of both views, `(b, d)`."""
        logits, *views = embeddings
        entropies = self.cross_entropy(logits, labels)  # (b,)
        rows, anchors, share = self.gather(torch.stack(views, dim=1))  # (n, 2, d)
        objective = nt_xent if self.form == "consert" else info_nce
        contrast = objective(*rows.unbind(1), temperature=self.temperature, anchors=anchors)  # (2b,) or (b,)
        contrast = contrast.sum() / len(logits)
        return {"ce": share * entropies.mean(), "contrast": self.weight * share * contrast}
