"""Distillation of a teacher's vectors: by cosine with the student's, or by similarities in the batch."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, check_number
from sentemb.losses.views import mean_weight


class CosineDistillationLoss(EncoderLoss):
    """Align the vector of each text with the teacher's vector (after Reimers and Gurevych, 2020).

    With h_i the vector of text i and t_i the teacher's::

        loss = mean_i ( 1 - cos(h_i, t_i) )

    The paper uses the squared distance, which is twice this loss for vectors of length 1. The cosine ignores
    the lengths, so a teacher that does not normalise its vectors works too.

    Inputs:
        text; labels: the teacher's vectors, `(b, d)`.

    Args:
        model: The encoder to train.

    Raises:
        InputError: Labels are missing or have another shape than the vectors.

    Example:
        >>> rows = Dataset.from_dict({"text": texts, "label": teacher.encode(texts).tolist()})
        >>> trainer = SentembTrainer(model=student, train_dataset=rows, loss=CosineDistillationLoss(student))

    Reference:
        Reimers and Gurevych: Making Monolingual Sentence Embeddings Multilingual using Knowledge
        Distillation. EMNLP 2020. https://aclanthology.org/2020.emnlp-main.365
    """

    references: ClassVar[tuple[str, ...]] = ("reimers-gurevych-2020-making",)
    learns_from_teachers: ClassVar[bool] = True

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of the texts' vectors, one tensor `(b, d)`, and the teacher's, `(b, d)`."""
        name = type(self).__name__
        if labels is None:
            raise InputError(f"{name} needs labels", "put the teacher's vectors in a column called label")
        if len(embeddings) != 1 or embeddings[0].shape != labels.shape:
            shapes = ", ".join(str(tuple(one.shape)) for one in embeddings)
            raise InputError(
                f"{name} got vectors of shape {shapes} and teacher vectors of shape {tuple(labels.shape)}",
                "use one text column, and a student with the teacher's dimension",
            )
        (vectors,) = embeddings
        distances: Tensor = 1 - nn.functional.cosine_similarity(vectors, labels.to(vectors.dtype))
        return mean_weight(distances) * distances.mean()


class InBatchDistillationLoss(EncoderLoss):
    """Train a student to rank the texts of a batch as its teacher does (after Lin, Yang and Lin, 2021).

    With q_i and d_j the student's vectors of a query and a document, q'_i and d'_j the teacher's, and the
    softmax over the documents of the batch::

        P(j | i) = softmax_j( cos(q_i, d_j) / temperature ),  P'(j | i) likewise of the teacher
        loss_i = - sum_j P'(j | i) * log P(j | i)

    and the same from documents to queries, both averaged over the batch. The cross-entropy differs from the
    paper's divergence by the entropy of P', which is constant for the student. Unlike a contrastive loss, it
    accounts for texts of the batch with the same meaning. The teacher can have any dimension.

    Inputs:
        query, document; labels: the teacher's vectors of both, concatenated, `(b, 2 d')`.

    Args:
        model: The encoder to train.
        temperature: Divides the cosines of both; the paper uses plain inner products.
        gather_across_devices: Compare with the texts of all processes.

    Raises:
        InputError: An option is out of range; labels are missing or of another shape.

    Example:
        >>> both = np.hstack([teacher.encode(queries), teacher.encode(documents)]).tolist()
        >>> rows = Dataset.from_dict({"query": queries, "document": documents, "label": both})
        >>> trainer = SentembTrainer(model=student, train_dataset=rows, loss=InBatchDistillationLoss(student))

    Reference:
        Lin, Yang and Lin: In-Batch Negatives for Knowledge Distillation with Tightly-Coupled Teachers for
        Dense Retrieval. RepL4NLP 2021. https://aclanthology.org/2021.repl4nlp-1.17
    """

    references: ClassVar[tuple[str, ...]] = ("lin-etal-2021-batch",)

    def __init__(
        self, model: nn.Module, *, temperature: float = 0.05, gather_across_devices: bool = True
    ) -> None:
        super().__init__(model)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.gather_across_devices = gather_across_devices

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of query and document vectors, each `(b, d)`, and the teacher's, `(b, 2 d')`."""
        name = type(self).__name__
        if len(embeddings) != 2:
            raise InputError(
                f"{name} compares queries and documents, but this batch has {len(embeddings)} text columns",
                "select two text columns",
            )
        vectors = torch.stack(embeddings, dim=1)  # (b, 2, d)
        if labels is None or labels.ndim != 2 or len(labels) != len(vectors) or labels.shape[1] % 2:
            shape = "no labels" if labels is None else f"labels of shape {tuple(labels.shape)}"
            raise InputError(
                f"{name} got {shape} for {len(vectors)} rows",
                "put the teacher's vectors of query and document, concatenated, in a column called label",
            )
        rows, anchors, weight = self.gather(vectors)  # (n, 2, d)
        taught = self.gather(labels.detach().reshape(len(labels), 2, -1)).rows  # (n, 2, d')
        losses = []
        for own, other in ((0, 1), (1, 0)):
            logits = cosine_similarity(rows[anchors, own], rows[:, other]) / self.temperature  # (b, n)
            targets = cosine_similarity(taught[anchors, own], taught[:, other]) / self.temperature  # (b, n)
            losses.append(-(targets.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1).mean())
        return weight * torch.stack(losses).mean()


def teacher_labels(loss: nn.Module, labels: Tensor | None, *, rows: int) -> Tensor:
    """Return the teacher's vectors in the labels; raise InputError if there is not one per row."""
    name = type(loss).__name__
    if labels is None:
        raise InputError(
            f"{name} needs labels, the teacher's vectors",
            "compute them with sentemb.teacher_vectors, and put them in a column called label",
        )
    if labels.ndim != 2 or len(labels) != rows:
        raise InputError(f"{name} got labels of shape {tuple(labels.shape)} for {rows} rows")
    return labels.detach()
