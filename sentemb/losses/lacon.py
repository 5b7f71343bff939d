"""LaCon: contrast between texts and label vectors, in both directions, and among label vectors."""

from __future__ import annotations

from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.functional import (
    Denominator,
    Slices,
    head_similarities,
    label_centered,
    label_dispersion,
)
from sentemb.losses.labelled import ClassificationLoss

_SLICE = 128  # 768 dimensions in 6 heads, the best of section 4.4


class LaConLoss(ClassificationLoss):
    """Label anchored contrastive learning (Zhang et al., 2022, Eq. 4 to 7).

    With H_i the head's vector for text i of label y_i, h_i^k and l_p^k the k-th of m slices of H_i and of the
    label vector L_p, P the labels of the batch, A(p) its texts of label p, B(p) the others, and phi =
    exp(cos / temperature)::

        loss = icl_weight * ICL + lcl_weight * LCL + ler_weight * LER
        ICL  = - mean_i sum_k log( phi(h_i^k, l_{y_i}^k) / sum_p phi(h_i^k, l_p^k) )
        LCL  = - 1 / |P| * sum_{p in P} sum_{a in A(p)} log( phi(L_p, H_a) / sum_{b in B(p)} phi(L_p, H_b) )
        LER  = mean_{i != j} ( exp(1 + cos(L_i, L_j)) - 1 )

    The denominator of LCL holds the negatives only, as printed, so LCL can be negative. LCL sums over the
    texts of a label, so it grows with the batch unless `average_positives` is set. ICL and LER use all labels
    of the head, also those that are missing from the batch. A batch with a single label does not have
    negatives: LCL is 0, except with `denominator="all"`. For a head with one label, ICL and LER are 0 as
    well.

    Label vectors use the encoder's learning rate, since the paper has a single one (section 3.1). To set
    another, pass `learning_rate_mapping={"label_vectors": 1e-3}` in the training arguments.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: Embeds texts in the space of the label vectors: `LabelHead` (LaCon-vanilla) or `FusionHead`
            (LaCon-fusion). The loss owns its weights.
        heads: m of ICL, a divisor of the width. None chooses the most heads with slices of at least 128
            dimensions: 6 for a width of 768, the best of the paper (section 4.4), 2 for 256, 1 below that.
        temperature: tau of ICL and LCL. None uses the head's temperature, so that ICL trains the logits used
            for prediction.
        icl_weight: Factor of ICL; 1 in the paper, 0 in a row of its ablation. The same holds for LCL.
        lcl_weight: Factor of LCL.
        ler_weight: lambda; 0.5, the middle of the grid 0.1 to 1. The paper reports a wide range of good
            values without naming one (section 4.4).
        denominator: Denominator of LCL. `negatives` as printed; `infonce` adds the positive itself, so that
            LCL is never negative; `all` sums over the whole batch.
        slices: Similarity in ICL. `renormalised` is the cosine of slices, since sim is the cosine; `global`
            is the dot product of slices of normalised vectors.
        average_positives: Divide the terms of a label by |A(p)|.
        gather_across_devices: Use the texts of all processes in LCL.

    Raises:
        InputError: An option is out of range, `heads` does not divide the width, or the head does not have
            label vectors.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls")
        >>> loss = LaConLoss(encoder, LabelHead(encoder.get_embedding_dimension(), classes=2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Zhang et al.: Label Anchored Contrastive Learning for Language Understanding. NAACL 2022.
        https://aclanthology.org/2022.naacl-main.103
    """

    references: ClassVar[tuple[str, ...]] = ("zhang-etal-2022-label",)

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        heads: int | None = None,
        temperature: float | None = None,
        icl_weight: float = 1.0,
        lcl_weight: float = 1.0,
        ler_weight: float = 0.5,
        denominator: Denominator = "negatives",
        slices: Slices = "renormalised",
        average_positives: bool = False,
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model, head)
        if not all(hasattr(head, part) for part in ("embed", "label_vectors", "temperature")):
            raise InputError(
                f"LaConLoss compares texts with label vectors, but {type(head).__name__} does not have any",
                "use a LabelHead or a FusionHead",
            )
        self.heads = self._checked_heads(heads)
        chosen: float = self.head.temperature if temperature is None else temperature
        self.temperature = self.check_number("temperature", chosen, low=0)
        self.icl_weight = self.check_number("icl_weight", icl_weight, low=0, inclusive=True)
        self.lcl_weight = self.check_number("lcl_weight", lcl_weight, low=0, inclusive=True)
        self.ler_weight = self.check_number("ler_weight", ler_weight, low=0, inclusive=True)
        self.denominator: Denominator = self.check_choice("denominator", denominator, get_args(Denominator))
        self.slices: Slices = self.check_choice("slices", slices, get_args(Slices))
        self.average_positives = average_positives
        self.gather_across_devices = gather_across_devices

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return H, which is compared with the label vectors, `(b, d)`."""
        return [self.head.embed(output)]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `icl`, `lcl` and `ler` from the head's vectors H, `(b, d)`."""
        (vectors,) = embeddings
        classes = self.row_labels(labels, rows=len(vectors))  # (b,)
        instance_centered = self._instance_centered(vectors, classes)  # refuses labels before the exchange
        rows, anchors, share = self.gather(vectors)  # (n, d)
        return {
            "icl": self.icl_weight * (share * instance_centered),
            "lcl": self.lcl_weight * (share * self._label_centered(rows, classes, anchors)),
            "ler": self.ler_weight * label_dispersion(self.head.label_vectors),
        }

    def _instance_centered(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Compute ICL of the local texts: cross-entropy over the labels in every head, summed over heads."""
        similarities = head_similarities(
            vectors, self.head.label_vectors, heads=self.heads, slices=self.slices
        )  # (m, b, c)
        logits = similarities.flatten(0, 1) / self.temperature  # (m * b, c)
        losses = self.cross_entropy(logits, classes.repeat(self.heads))  # (m * b,)
        return self.heads * losses.mean()

    def _label_centered(self, rows: Tensor, classes: Tensor, anchors: slice) -> Tensor:
        """Compute the local part of LCL as a mean; its average over processes is the sum over all texts."""
        labels = self.gather(classes).rows.long()  # (n,)
        terms = label_centered(
            rows,
            self.head.label_vectors,
            labels,
            temperature=self.temperature,
            denominator=self.denominator,
            anchors=anchors,
        )  # (b,)
        counts = torch.bincount(labels)  # (c,)
        if self.average_positives:
            terms = terms / counts[labels[anchors]]
        return terms.mean() * len(rows) / counts.count_nonzero()

    def _checked_heads(self, heads: int | None) -> int:
        width = self.head.label_vectors.shape[1]
        divisors = [count for count in range(1, width + 1) if width % count == 0]
        if heads is None:
            return max((count for count in divisors if width // count >= _SLICE), default=1)
        self.check_number("heads", heads, low=1, inclusive=True, whole=True)
        if heads not in divisors:
            raise InputError(
                f"LaConLoss cannot divide the head's width of {width} among {heads} heads",
                f"set heads to one of {', '.join(map(str, divisors))}",
            )
        return heads
