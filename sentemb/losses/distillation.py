"""Distillation of a teacher's vectors: by cosine with the student's, or by similarities in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
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


def teacher_vectors(
    teachers: Sequence[Any], texts: Sequence[str], *, weights: Sequence[float] | None = None
) -> NDArray[np.float32]:
    """Encode texts by one or several teachers, as labels of the losses that learn a teacher's similarities.

    The cosine of two of these vectors is the weighted mean of the teachers' cosines, whatever the dimensions
    of the teachers.

    Args:
        teachers: Encoders, anything with the `encode` of sentence-transformers.
        texts: n texts.
        weights: The weight of each teacher; equal weights by default. RankCSE's two have 1/3 and 2/3.

    Returns:
        Vectors of length 1, `(n, sum of the dimensions)`.

    Raises:
        InputError: There is no teacher, or not every teacher has a positive weight.

    Example:
        >>> labels = teacher_vectors([load("bert-mini")], ["a cat", "a dog"])
        >>> labels.shape
        (2, 256)
    """
    check_weights(len(teachers), weights)
    parts = [teacher.encode(list(texts), normalize_embeddings=True) for teacher in teachers]
    return mix_vectors(parts, weights)


def mix_vectors(parts: Sequence[Any], weights: Sequence[float] | None = None) -> NDArray[np.float32]:
    """Concatenate the unit vectors of several teachers so that cosines are weighted means of theirs."""
    shares = np.asarray([1.0] * len(parts) if weights is None else weights, dtype=np.float64)
    factors = np.sqrt(shares / shares.sum()).astype(np.float32)
    pairs = zip(factors, parts, strict=True)
    return np.concatenate([factor * np.asarray(part, dtype=np.float32) for factor, part in pairs], axis=1)


def check_weights(teachers: int, weights: Sequence[float] | None) -> None:
    """Raise InputError unless every teacher has a positive weight."""
    if teachers == 0 or (weights is not None and (len(weights) != teachers or min(weights) <= 0)):
        raise InputError(
            f"{teachers} teachers with the weights {weights}", "give every teacher a positive weight"
        )


def teacher_labels(loss: nn.Module, labels: Tensor | None, *, rows: int) -> Tensor:
    """Return the teacher's vectors in the labels; raise InputError if there is not one per row."""
    name = type(loss).__name__
    if labels is None:
        raise InputError(
            f"{name} needs labels, the teacher's vectors",
            "compute them with sentemb.losses.teacher_vectors, and put them in a column called label",
        )
    if labels.ndim != 2 or len(labels) != rows:
        raise InputError(f"{name} got labels of shape {tuple(labels.shape)} for {rows} rows")
    return labels.detach()
