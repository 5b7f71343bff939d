"""RankCSE: the two views rank the batch alike, and as a teacher ranks it."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._vectors import cosine_similarity
from sentemb.losses.base import check_choice, check_number
from sentemb.losses.distillation import teacher_labels
from sentemb.losses.functional import first_of, own_pair, without
from sentemb.losses.simcse import Head, SimCSELoss

Ranking = Literal["listmle", "listnet"]


class RankCSELoss(SimCSELoss):
    """SimCSE with consistent rankings, distilled from one or two teachers (Liu et al., 2023).

    With z and z' two dropout views after the head, s the cosine, T the temperature, S_ij = s(z_i, z'_j) / T,
    S'_ij = s(z'_i, z_j) / T, P and Q the softmax of their rows, M = (P + Q) / 2, and R_ij the teacher's
    cosine of sentences i and j::

        consistency_i = 1/2 KL(P_i | M_i) + 1/2 KL(Q_i | M_i)
        ListNet_i     = - sum_{j != i} softmax_{j != i}(R_i / t_R)_j log softmax_{j != i}(s(z_i, z') / t)_j
        ListMLE_i     = sum_k [ log sum_{m >= k} exp(S_i,o(m)) - S_i,o(k) ],  o sorts R_i in descending order
        loss          = mean_i [ InfoNCE_i + w_c consistency_i + w_r ranking_i ]

    ListMLE ranks all places, the own one first. A batch of one sentence has loss 0. Teachers' vectors are
    computed once: `sentemb.teacher_vectors` makes the labels from any encoders. The paper's are
    DiffCSE-base and SimCSE-large, the first with weight 1/3.

    Inputs:
        sentence; labels: the teacher's vectors, `(b, d')`.

    Args:
        model: The encoder to train.
        ranking: `listmle`, the paper's best, or `listnet`.
        temperature: T; 0.05 as in SimCSE.
        student_temperature: t of ListNet, 0.05.
        teacher_temperature: t_R of ListNet; half of t in the paper.
        consistency_weight: w_c, 1 in the paper.
        ranking_weight: w_r, 1 in the paper.
        head: The head of `SimCSELoss`.
        gather_across_devices: Rank the sentences of all processes.
        preset: `released` follows the community's code (the authors' is not public) where it differs from the
            paper: the consistency is the mean negative entropy of P and Q, with weight 1; ListNet has t_R = t
            for the teacher and T for the student; ListMLE adds 1e-7 to the sums of exponentials after the
            row's maximum is subtracted.

    Returns of a step:
        `contrast`, and the weighted `consistency` and `ranking`, unless their weight is 0.

    Raises:
        InputError: An option is out of range; labels are missing or do not match.

    Example:
        >>> labels = teacher_vectors([teacher], texts).tolist()
        >>> rows = Dataset.from_dict({"sentence": texts, "label": labels})
        >>> trainer = SentembTrainer(model=encoder, train_dataset=rows, loss=RankCSELoss(encoder))

    Reference:
        Liu et al.: RankCSE: Unsupervised Sentence Representations Learning via Learning to Rank. ACL 2023.
        https://arxiv.org/abs/2305.16726
    """

    references: ClassVar[tuple[str, ...]] = ("liu-etal-2023-rankcse", "gao-etal-2021-simcse")
    single_text: ClassVar[bool] = True
    learns_from_teachers: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        ranking: Ranking = "listmle",
        temperature: float = 0.05,
        student_temperature: float = 0.05,
        teacher_temperature: float = 0.025,
        consistency_weight: float = 1.0,
        ranking_weight: float = 1.0,
        head: Head | None = "auto",
        gather_across_devices: bool = True,
        preset: Literal["released"] | None = None,
    ) -> None:
        super().__init__(
            model, temperature=temperature, head=head, gather_across_devices=gather_across_devices
        )
        self.ranking: Ranking = check_choice(self, "ranking", ranking, get_args(Ranking))
        self.preset = check_choice(self, "preset", preset, ("released", None))
        self.student_temperature = check_number(self, "student_temperature", student_temperature, low=0)
        self.teacher_temperature = check_number(self, "teacher_temperature", teacher_temperature, low=0)
        self.consistency_weight = check_number(
            self, "consistency_weight", consistency_weight, low=0, inclusive=True
        )
        self.ranking_weight = check_number(self, "ranking_weight", ranking_weight, low=0, inclusive=True)
        if preset == "released":
            self.consistency_weight = 1.0
            self.teacher_temperature, self.student_temperature = self.student_temperature, temperature

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute the weighted terms of two views, each `(b, d)`, and the teacher's vectors, `(b, d')`."""
        vectors = teacher_labels(self, labels, rows=len(embeddings[0]))
        rows, anchors, weight = self.compared(embeddings)
        first, second = rows.unbind(1)  # each (n, d)
        cosines = cosine_similarity(first[anchors], second)  # (a, n)
        logits = cosines / self.temperature
        terms = {"contrast": torch.logsumexp(logits, dim=1) - logits.diagonal(first_of(anchors))}
        released = self.preset == "released"
        if self.consistency_weight:
            exchanged = cosine_similarity(second[anchors], first)
            terms["consistency"] = self.consistency_weight * consistency(
                logits, exchanged / self.temperature, released=released
            )
        if self.ranking_weight:
            teacher = self.gather(vectors).rows
            target = cosine_similarity(teacher[anchors], teacher)  # (a, n)
            if self.ranking == "listmle":
                ranking = list_mle(logits, target, released=released)
            else:
                student, taught = cosines / self.student_temperature, target / self.teacher_temperature
                ranking = list_net(student, taught, anchors=anchors)
            terms["ranking"] = self.ranking_weight * ranking
        return {name: weight * losses.mean() for name, losses in terms.items()}


def consistency(first: Tensor, second: Tensor, *, released: bool = False) -> Tensor:
    """Jensen-Shannon divergence of the rows of two logit matrices `(a, n)`, as `(a,)`.

    `released` is the negative entropy instead, which the divergence becomes if the logarithm of the mixture
    is bounded from below by 1e-7, so that it is constant.
    """
    ours, theirs = first.log_softmax(1), second.log_softmax(1)
    if released:
        mixture = torch.full_like(ours, 1e-7)
    else:
        mixture = torch.logaddexp(ours, theirs) - torch.log(torch.full_like(ours, 2))
    parts = [(one.exp() * (one - mixture)).sum(1) for one in (ours, theirs)]
    return torch.stack(parts).mean(0)


def list_net(logits: Tensor, target: Tensor, *, anchors: slice) -> Tensor:
    """Cross-entropy of the student's and the teacher's softmax over the other sentences, `(a,)`.

    The logits of both are `(a, n)`, divided by their temperatures.
    """
    own = own_pair(logits.shape[1], anchors, logits.device)
    taught = without(target, own).softmax(1).masked_fill(own, 0)
    losses: Tensor = -(taught * without(logits, own).log_softmax(1).masked_fill(own, 0)).sum(1)
    return losses


def list_mle(logits: Tensor, target: Tensor, *, released: bool = False) -> Tensor:
    """Negative log likelihood of the teacher's order of each row under the student's logits, `(a,)`.

    Both are `(a, n)`. Ties of the teacher keep the order of the batch.
    """
    order = target.argsort(dim=1, descending=True, stable=True)
    sorted_logits = logits.gather(1, order)
    if released:
        shifted = sorted_logits - sorted_logits.amax(1, keepdim=True)
        tails = torch.log(shifted.exp().flip(1).cumsum(1).flip(1) + 1e-7)
        return (tails - shifted).sum(1)
    tails = sorted_logits.flip(1).logcumsumexp(1).flip(1)
    return (tails - sorted_logits).sum(1)
