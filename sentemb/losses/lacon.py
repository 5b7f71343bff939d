"""LaCon: contrast between texts and label vectors, in both directions, and among label vectors."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity, unit_vectors
from sentemb.errors import InputError
from sentemb.losses.base import check_choice, check_number
from sentemb.losses.cross_entropy import ClassificationLoss
from sentemb.losses.functional import EVERY, without

Denominator = Literal["negatives", "infonce", "all"]
Slices = Literal["renormalised", "global"]

_SLICE = 128  # 768 dimensions in 6 heads, the best of section 4.4


class LaConLoss(ClassificationLoss):
    """Label anchored contrastive learning (Zhang et al., 2022, Eq. 4 to 7).

    With H_i the head's vector for text i of label y_i, h_i^k and l_p^k the k-th of m slices of H_i and of the
    label vector L_p, P the labels of the batch, A(p) its texts of label p, B(p) the others, and phi =
    exp(cos / temperature) with the temperature of the head, so that ICL trains the logits used for
    prediction::

        loss = ICL + LCL + ler_weight * LER
        ICL  = - mean_i sum_k log( phi(h_i^k, l_{y_i}^k) / sum_p phi(h_i^k, l_p^k) )
        LCL  = - 1 / |P| * sum_{p in P} sum_{a in A(p)} log( phi(L_p, H_a) / sum_{b in B(p)} phi(L_p, H_b) )
        LER  = mean_{i != j} ( exp(1 + cos(L_i, L_j)) - 1 )

    The denominator of LCL holds the negatives only, as printed, so LCL can be negative. LCL sums over the
    texts of a label, so it grows with the batch. ICL and LER use all labels of the head, also those that are
    missing from the batch. A batch with a single label does not have negatives: LCL is 0, except with
    `denominator="all"`. For a head with one label, ICL and LER are 0 as well.

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
        ler_weight: lambda; 0.5, the middle of the grid 0.1 to 1. The paper reports a wide range of good
            values without naming one (section 4.4).
        slices: Similarity in ICL. `renormalised` is the cosine of slices, since sim is the cosine; `global`
            is the dot product of slices of normalised vectors.
        denominator: Denominator of LCL. `negatives` as printed; `infonce` adds the positive itself, so that
            LCL is never negative; `all` sums over the whole batch.
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
        ler_weight: float = 0.5,
        slices: Slices = "renormalised",
        denominator: Denominator = "negatives",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model, head)
        if not all(hasattr(head, part) for part in ("embed", "label_vectors", "temperature")):
            raise InputError(
                f"LaConLoss compares texts with label vectors, but {type(head).__name__} does not have any",
                "use a LabelHead or a FusionHead",
            )
        self.heads = self._checked_heads(heads)
        self.ler_weight = check_number(self, "ler_weight", ler_weight, low=0, inclusive=True)
        self.slices: Slices = check_choice(self, "slices", slices, get_args(Slices))
        self.denominator: Denominator = check_choice(self, "denominator", denominator, get_args(Denominator))
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
        # ICL: the cross-entropy over the labels in every head, summed over heads.
        similarities = head_similarities(
            vectors, self.head.label_vectors, heads=self.heads, slices=self.slices
        )  # (m, b, c)
        logits = similarities.flatten(0, 1) / self.head.temperature  # (m * b, c)
        # Also checks the labels before processes exchange them.
        entropies = self.cross_entropy(logits, classes.repeat(self.heads))  # (m * b,)
        icl = self.heads * entropies.mean()
        # LCL as a mean over the local texts: its average over processes is the sum over all texts.
        rows, anchors, share = self.gather(vectors)  # (n, d)
        every_label = self.gather(classes).rows.long()  # (n,)
        terms = label_centered(
            rows,
            self.head.label_vectors,
            every_label,
            temperature=self.head.temperature,
            denominator=self.denominator,
            anchors=anchors,
        )  # (b,)
        lcl = terms.mean() * len(rows) / torch.bincount(every_label).count_nonzero()
        return {
            "icl": share * icl,
            "lcl": share * lcl,
            "ler": self.ler_weight * label_dispersion(self.head.label_vectors),
        }

    def _checked_heads(self, heads: int | None) -> int:
        width = self.head.label_vectors.shape[1]
        divisors = [count for count in range(1, width + 1) if width % count == 0]
        if heads is None:
            return max((count for count in divisors if width // count >= _SLICE), default=1)
        check_number(self, "heads", heads, low=1, inclusive=True, whole=True)
        if heads not in divisors:
            raise InputError(
                f"LaConLoss cannot divide the head's width of {width} among {heads} heads",
                f"set heads to one of {', '.join(map(str, divisors))}",
            )
        return heads


# The cost is texts times labels, since texts are not compared with each other.


def head_similarities(
    vectors: Tensor, label_vectors: Tensor, *, heads: int, slices: Slices = "renormalised"
) -> Tensor:
    """Similarity of every text with every label in each of m equal slices of the dimensions (LaCon, Eq. 4).

    `renormalised` is the cosine of two slices. `global` is the dot product of slices of vectors of length 1,
    so the heads add up to the cosine of the whole vectors. Returns `(m, n, c)` from `(n, d)` and `(c, d)`.
    """

    def divide(rows: Tensor) -> Tensor:
        whole = unit_vectors(rows) if slices == "global" else rows
        parts = whole.reshape(len(rows), heads, -1).transpose(0, 1)  # (m, n, d / m)
        return parts if slices == "global" else unit_vectors(parts)

    with torch.autocast(vectors.device.type, enabled=False):
        return divide(vectors) @ divide(label_vectors).mT  # (m, n, c)


def label_centered(
    vectors: Tensor,
    label_vectors: Tensor,
    labels: Tensor,
    *,
    temperature: float,
    denominator: Denominator = "negatives",
    anchors: slice = EVERY,
) -> Tensor:
    """The label-centered term of every text (LaCon, Eq. 5): its label is the anchor, the text a positive.

    With p the label of text a, A(p) the texts of that label, B(p) all others and phi(p, b) of L_p and H_b,
    the term is `-log(phi(p, a) / Z)`, `(a,)`, where Z by `denominator` is

    * `negatives`: the sum of phi over B(p), as Eq. 5 is printed; the term may be negative,
    * `infonce`: that plus phi(p, a),
    * `all`: the sum of phi over all texts.

    Except for `all`, it is 0 with gradient 0 where B(p) is empty.
    """
    logits = cosine_similarity(label_vectors, vectors) / temperature  # (c, n)
    index = torch.arange(len(vectors), device=vectors.device)  # (n,)
    own = labels[anchors]  # (a,)
    positives = logits[own, index[anchors]]  # (a,)
    if denominator == "all":
        return torch.logsumexp(logits, dim=1)[own] - positives
    positive = torch.arange(len(label_vectors), device=labels.device).unsqueeze(1) == labels  # (c, n)
    negatives = torch.logsumexp(without(logits, positive), dim=1)[own]  # (a,)
    if denominator == "infonce":
        negatives = torch.logaddexp(negatives, positives)  # (a,)
    terms: Tensor = (negatives - positives).masked_fill(positive.all(1)[own], 0)
    return terms


def label_dispersion(label_vectors: Tensor) -> Tensor:
    """The label embedding regularizer (LaCon, Eq. 6): mean of `exp(1 + cos(L_i, L_j)) - 1` over i != j.

    A scalar from 0 to e^2 - 1; 0 with gradient 0 for a single label.
    """
    similarity = cosine_similarity(label_vectors, label_vectors)  # (c, c)
    count = len(label_vectors)
    itself = torch.eye(count, dtype=torch.bool, device=similarity.device)  # (c, c)
    values = torch.expm1(1 + similarity).masked_fill(itself, 0)  # (c, c)
    return values.sum() / max(1, count * (count - 1))
