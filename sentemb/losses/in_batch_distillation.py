"""Distillation of a teacher's similarities within the batch."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss


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
        self.temperature = self.check_number("temperature", temperature, low=0)
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
        taught = labels.detach().reshape(len(labels), 2, -1)  # (b, 2, d')
        rows, anchors, weight = self.gather(vectors)
        wanted = self.gather(taught).rows
        losses = [
            _cross_entropy(rows[anchors, side], rows[:, 1 - side], wanted[anchors, side], wanted[:, 1 - side],
                           self.temperature)
            for side in (0, 1)
        ]  # fmt: skip
        return weight * torch.stack(losses).mean()


def _cross_entropy(own: Tensor, others: Tensor, taught: Tensor, others_taught: Tensor, by: float) -> Tensor:
    """Compute the mean cross-entropy of the student's distribution over the others and the teacher's."""
    given = cosine_similarity(own, others) / by  # (a, n)
    wanted = (cosine_similarity(taught, others_taught) / by).softmax(dim=1)
    return -(wanted * given.log_softmax(dim=1)).sum(dim=1).mean()
