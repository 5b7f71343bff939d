"""RankEncoder: sentences are similar if a corpus looks similar from both."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb._vectors import centered_ranks, cosine_similarity, first_equal, unit_vectors
from sentemb.errors import InputError
from sentemb.losses.base import check_choice, check_number
from sentemb.losses.distillation import teacher_labels
from sentemb.losses.functional import info_nce
from sentemb.losses.simcse import Head, SimCSELoss


class RankEncoderLoss(SimCSELoss):
    """SimCSE with the similarity of rank vectors as a target (Seonwoo et al., 2023).

    A frozen base encoder gives e_i for every sentence and c_k for every sentence of a corpus, once. The rank
    vector of a sentence holds the ranks of all cos(e_i, c_k), with average ranks for ties. With r_ij the
    correlation of the rank vectors of i and j (Spearman's), z and z' two dropout views after the head, and
    m_ij = 1 where low <= r_ij <= high::

        distance = sum_ij m_ij (s(z_i, z_j) - r_ij)^2 / (sum_ij m_ij + 1e-8)
        loss     = InfoNCE(z, z') + weight * distance

    The paper applies it to SimCSE in this form, and to PromptBERT with s(z_i, z'_j), bounds 0.5 and 0.8, and
    max(InfoNCE, weight * distance).

    Inputs:
        sentence; labels: the base encoder's vectors, `(b, d')`.

    Args:
        model: The encoder to train.
        corpus: The base encoder's vectors of the corpus, `(n, d')`; see `sentemb.teacher_vectors`. The
            paper has 100,000 sentences, its code 10,000. None: `set_corpus` is called before the first step.
        temperature: Divides the cosine of InfoNCE; 0.05.
        weight: 0.05 in the paper.
        bounds: low and high, both included; 0.5 and 0.9999, which leaves out a sentence with itself.
        form: `simcse` or `promptbert`, see above.
        head: The head of `SimCSELoss`.
        gather_across_devices: Compare with the sentences of all processes.

    Returns of a step:
        `contrast` and the weighted `distance`; a single value in the form `promptbert`.

    Raises:
        InputError: An option is out of range; labels are missing or do not match the corpus.

    Example:
        >>> base = load("bert-mini")
        >>> loss = RankEncoderLoss(encoder, corpus=teacher_vectors([base], texts))
        >>> labels = teacher_vectors([base], texts).tolist()
        >>> rows = Dataset.from_dict({"sentence": texts, "label": labels})
        >>> trainer = SentembTrainer(model=encoder, train_dataset=rows, loss=loss)

    Reference:
        Seonwoo et al.: Ranking-Enhanced Unsupervised Sentence Representation Learning. ACL 2023.
        https://arxiv.org/abs/2209.04333
    """

    references: ClassVar[tuple[str, ...]] = ("seonwoo-etal-2023-ranking", "gao-etal-2021-simcse")
    single_text: ClassVar[bool] = True
    learns_from_teachers: ClassVar[bool] = True
    corpus: Tensor
    _first: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        corpus: Any = None,
        temperature: float = 0.05,
        weight: float = 0.05,
        bounds: tuple[float, float] = (0.5, 0.9999),
        form: Literal["simcse", "promptbert"] = "simcse",
        head: Head | None = "auto",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.form = check_choice(self, "form", form, ("simcse", "promptbert"))
        self.weight = check_number(self, "weight", weight, low=0, inclusive=True)
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise InputError(f"bounds of {type(self).__name__} are {bounds!r}", "set (low, high)")
        self.bounds = tuple(check_number(self, "bounds", bound, low=-1, inclusive=True) for bound in bounds)
        self.register_buffer("corpus", torch.zeros(0, 0), persistent=False)
        self.register_buffer("_first", torch.zeros(0, dtype=torch.int64), persistent=False)
        if corpus is not None:
            self.set_corpus(corpus)

    def set_corpus(self, vectors: Any) -> None:
        """Take the base encoder's vectors of the corpus, `(n, d')`."""
        corpus = torch.as_tensor(vectors)
        if corpus.ndim != 2 or len(corpus) < 2:
            raise InputError(
                f"corpus of {type(self).__name__} has shape {tuple(corpus.shape)}",
                "provide the vectors of at least two sentences, (n, d)",
            )
        device = next(self.model.parameters()).device
        self.corpus, self._first = unit_vectors(corpus).to(device), first_equal(corpus).to(device)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of two views, each `(b, d)`, and the base encoder's vectors, `(b, d')`."""
        base = teacher_labels(self, labels, rows=len(embeddings[0]))
        if base.shape[1] != self.corpus.shape[1]:
            raise InputError(
                f"{type(self).__name__} got labels of dimension {base.shape[1]} for a corpus of dimension "
                f"{self.corpus.shape[1]}",
                "encode both with the same base encoder",
            )
        rows, anchors, weight = self.compared(embeddings)
        first, second = rows.unbind(1)  # each (n, d)
        contrast = info_nce(first, second, temperature=self.temperature, anchors=anchors).mean()
        target = self.rank_similarity(self.gather(base).rows, anchors)  # (a, n)
        other = first if self.form == "simcse" else second
        error = (cosine_similarity(first[anchors], other) - target).square()
        low, high = self.bounds
        chosen = (target >= low) & (target <= high)
        # The mean is over the chosen pairs of all processes, of which each has a different number.
        total = self.gather(chosen.sum(1).to(error.dtype)).rows.sum()
        distance = len(rows) / len(error) * error.masked_fill(~chosen, 0).sum() / (total + 1e-8)
        distance = self.weight * distance
        if self.form == "promptbert":
            return weight * torch.maximum(contrast, distance)
        return {"contrast": weight * contrast, "distance": weight * distance}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card, with the size of the corpus."""
        return {**super().get_config_dict(), "corpus": len(self.corpus)}

    @torch.no_grad()
    def rank_similarity(self, vectors: Tensor, anchors: slice) -> Tensor:
        """Compute Spearman's correlations of the anchors' rank vectors with all others, `(a, n)`."""
        cosines = cosine_similarity(vectors, self.corpus.to(vectors.device))  # (n, corpus)
        unit = centered_ranks(cosines[:, self._first.to(vectors.device)])
        return unit[anchors] @ unit.T
