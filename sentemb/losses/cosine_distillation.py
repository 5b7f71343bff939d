"""Distillation of a teacher's vectors by their cosine with the student's."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss


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

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)

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
        distances: Tensor = 1 - cosine_similarity(vectors, labels.to(vectors.dtype))
        return distances.mean()
