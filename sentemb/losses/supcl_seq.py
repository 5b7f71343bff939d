"""SupCL-Seq: supervised contrastive learning on views with several dropout probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.encoder import unwrap
from sentemb.losses.labelled import Reduction, Representation, check_representation, represent
from sentemb.losses.supcon import SupConLoss
from sentemb.losses.views import View, check_dropouts

_RELEASED_DEFAULT = 0.1  # def_drop_out of the authors' trainer
_LEFT_BEHIND = "left_behind"


class SupCLSeqLoss(SupConLoss):
    """Contrastive loss of SupCL-Seq on dropout views (Sedghamiz et al., 2021, Eq. 2).

    Each of b sentences is encoded under every probability of `dropouts`, set in all of the encoder's
    dropouts. The b * N vectors are the anchors of a supervised contrastive loss: with phi(x, y) = exp(cos(x,
    y) / temperature) and P(x) the other vectors of x's class, the mean over all x of::

        loss(x) = - 1 / |P(x)| * sum_{y in P(x)} log( phi(x, y) / sum_{z != x} phi(x, z) )

    Without labels each sentence is its own class, the paper's self-supervised row (Table 3). Graded labels
    are rounded to one decimal and used as classes (footnote 3). Views with the same probability share a
    forward pass; views with probability 0 are identical. The encoder's own probabilities are restored after
    every forward pass, even if it fails.

    Inputs:
        sentence; labels: class, grade or none.

    Args:
        model: The encoder to train; it needs dropout.
        dropouts: One probability per view; (0, 0.1, 0.2) for most tasks of the paper (Table 4), which tries
            two to five views (Table 1).
        temperature: Divides the cosine; 0.05 (Table 4).
        representation: `sentence` compares the encoder's vectors. The paper's is a pooled CLS (footnote 2),
            dense and tanh on the first token: build the encoder with `pooling="cls-mlp"`. `cls` compares the
            last hidden state of the first token, with any pooling.
        reduction: `mean` over the anchors as in the authors' code, or `sum` as Eq. 2 is printed.
        gather_across_devices: Compare with the rows of all processes.
        preset: `released` follows the authors' code where it differs from the paper: a view
            under the encoder's own dropout comes first; an entry 0.1 keeps the probability of the view before
            it; a list that ends with 0.1 leaves that probability to the next step's first view, so that after
            (0, 0.1) all views of later steps are equal; grades are not rounded; the loss is multiplied by
            temperature / 0.07.

    Raises:
        InputError: An option is out of range, or the encoder does not have dropout.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp", max_length=128)
        >>> loss = SupCLSeqLoss(encoder, dropouts=(0.0, 0.1, 0.2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Sedghamiz et al.: SupCL-Seq: Supervised Contrastive Learning for Downstream Optimized Sequence
        Representations. Findings of EMNLP 2021. https://aclanthology.org/2021.findings-emnlp.289
    """

    references: ClassVar[tuple[str, ...]] = ("sedghamiz-etal-2021-supcl-seq",)

    def __init__(
        self,
        model: nn.Module,
        *,
        dropouts: tuple[float, ...] = (0.0, 0.1, 0.2),
        temperature: float = 0.05,
        representation: Representation = "sentence",
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model,
            temperature=temperature,
            reduction=reduction,
            gather_across_devices=gather_across_devices,
            preset=preset,
        )
        self.representation: Representation = check_representation(self, representation)
        self.dropouts = check_dropouts(self, dropouts)
        self._left_behind: float | None = None

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column for each probability of this step."""
        column = self.one_column(sentence_features)
        return [View(column, probability) for probability in self.next_views()]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the vectors of a view, `(b, d)`."""
        return [represent(self, output, self.representation)]

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a tensor `(b, d)` per view and the class or grade of each row."""
        if labels is not None and labels.is_floating_point() and self.preset is None:
            labels = labels.round(decimals=1)
        return super().compute_loss_from_embeddings(embeddings, labels)

    def next_views(self) -> tuple[float | None, ...]:
        """Return the dropout probabilities of this step's views; None is the encoder's own.

        With `released`, a call in training mode counts as a step.
        """
        if self.preset is None:
            return self.dropouts
        views, left_behind = released_views(self.dropouts, self._left_behind)
        if unwrap(self.model).training:
            self._left_behind = left_behind
        return views

    def head_state(self) -> dict[str, Tensor]:
        """Return the state; with `released` also the last step's dropout, empty for the encoder's own."""
        state = super().head_state()
        if self.preset == "released":
            left = [] if self._left_behind is None else [self._left_behind]
            state[_LEFT_BEHIND] = torch.tensor(left, dtype=torch.float64)
        return state

    def load_head_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `head_state` returned; raise InputError if the presets differ."""
        if state.keys() != self.head_state().keys():
            raise InputError(
                f"the saved state of a {type(self).__name__} contains "
                f"{', '.join(state) or 'nothing'}, which does not match its options",
                "build the loss with the preset of the run that saved it",
            )
        if self.preset == "released":
            self._left_behind = next(iter(state[_LEFT_BEHIND].tolist()), None)


def released_views(
    dropouts: tuple[float, ...], current: float | None
) -> tuple[tuple[float | None, ...], float | None]:
    """Return the probabilities of a step in the authors' trainer, and the one left for the next step."""
    used = [current]
    for listed in dropouts:
        if listed != _RELEASED_DEFAULT:
            current = listed
        used.append(current)
    return tuple(used), _RELEASED_DEFAULT if dropouts[-1] != _RELEASED_DEFAULT else current
