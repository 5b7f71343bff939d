"""Fine-tuning with a classification head: cross-entropy, alone or with a contrastive or label term."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses.base import EncoderLoss, check_choice, check_number
from sentemb.losses.functional import info_nce, nt_xent, supervised_contrastive
from sentemb.losses.supcon import warn_of_few_positives
from sentemb.losses.views import View, check_dropouts, mean_weight, unwrap

Reduction = Literal["mean", "sum"]
Form = Literal["consert", "simcse"]


class ClassificationLoss(EncoderLoss):
    """Base class of losses on single texts with class numbers; the loss owns the classification head."""

    owned_modules: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        super().__init__(model)
        if not isinstance(head, nn.Module):
            raise InputError(
                f"the classification head of {type(self).__name__} must be a torch.nn.Module, but got "
                f"{head!r}",
                "use a head such as LinearHead(model.get_embedding_dimension(), classes)",
            )
        self.head: Any = head.to(next(model.parameters()).device)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column."""
        return [View(self.one_column(sentence_features))]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the head's logits, `(b, classes)`."""
        return [self.head(output)]

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card, with the class of the head."""
        return {"head": type(self.head).__name__, **super().get_config_dict()}

    def cross_entropy(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the cross-entropy of every row, `(b,)`, in float32 or float64."""
        name = type(self).__name__
        labels = self.row_labels(labels, rows=len(logits))
        if labels.is_floating_point():
            raise InputError(f"{name} needs integer labels", "number the classes from 0")
        # On an accelerator a wrong label would kill the process without naming the label.
        wrong = labels[(labels < 0) | (labels >= logits.shape[1])]
        if len(wrong):
            raise InputError(
                f"{name} got the label {int(wrong[0])}, but the head has the classes 0 to "
                f"{logits.shape[1] - 1}",
                "number the classes from 0, and build the head with the same number of classes",
            )
        precise = logits if logits.dtype == torch.float64 else logits.float()
        return nn.functional.cross_entropy(precise, labels.long(), reduction="none")


class CrossEntropyLoss(ClassificationLoss):
    """Mean cross-entropy of a classification head, as in BERT's fine-tuning (Devlin et al., 2019).

    With p_i the softmax of the head's logits for row i and y_i its class::

        loss = - 1 / b * sum_i log p_i[y_i]

    With `dropouts` every row is encoded once per probability, as `SupCLSeqLoss` does, and the mean is over
    all views: the dropout-augmented baseline of SupCL-Seq (Table 2). The encoder reads a row as one text,
    either a sentence or a pair joined by the separator.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: Maps the encoder's output to logits, such as `LinearHead`. The loss owns its weights.
        dropouts: One probability per view; None encodes each row once, under the encoder's own dropout.

    Raises:
        InputError: An option is out of range.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls-mlp")
        >>> loss = CrossEntropyLoss(encoder, LinearHead(encoder.get_embedding_dimension(), classes=2))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Devlin et al.: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding. NAACL
        2019. https://aclanthology.org/N19-1423
    """

    references: ClassVar[tuple[str, ...]] = ("devlin-etal-2019-bert",)

    def __init__(
        self, model: nn.Module, head: nn.Module, *, dropouts: tuple[float, ...] | None = None
    ) -> None:
        super().__init__(model, head)
        self.dropouts = None if dropouts is None else check_dropouts(self, dropouts)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return a view of the only text column for each probability of `dropouts`."""
        column = self.one_column(sentence_features)
        return [View(column, probability) for probability in self.dropouts or (None,)]

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the mean loss of the logits of all views, each `(b, classes)`."""
        entropies = torch.cat([self.cross_entropy(logits, labels) for logits in embeddings])
        return mean_weight(entropies) * entropies.mean()


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
        self.weight = check_number(self, "weight", weight, low=0, inclusive=True)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.form: Form = check_choice(self, "form", form, get_args(Form))
        self.gather_across_devices = gather_across_devices

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return two views of the only text column."""
        return super().views_of(sentence_features) * 2

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


class CrossEntropySupConLoss(ClassificationLoss):
    """Fine-tuning with a supervised contrastive term, SCL (Gunel et al., 2021, Eq. 1 to 3).

    With Phi(x_i) the normalised last hidden state of row i's first token (section 2), N_i the rows of its
    class, itself included, and phi(i, j) = exp(Phi(x_i) . Phi(x_j) / temperature)::

        loss = (1 - weight) * CE + weight * SCL
        SCL  = sum_i - 1 / (N_i - 1) * sum_{j != i, y_j = y_i} log( phi(i, j) / sum_{k != i} phi(i, k) )

    CE is the mean cross-entropy of the head over the batch. A row whose class occurs once has SCL 0 and still
    counts in the mean, so a batch without repeated classes trains by cross-entropy alone.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: Maps the encoder's output to logits, such as `LinearHead`. The loss owns its weights.
        temperature: tau; 0.3, usually the best of the grid 0.1 to 0.7 in the published version.
        weight: lambda; 0.9, usually the best of the grid 0.1 to 1 in the published version.
        reduction: `mean` over the rows, on the scale of CE; or `sum` as Eq. 3 is printed, where SCL grows
            with the batch. Tune the weight again if you change the reduction.
        gather_across_devices: Compare with the rows of all processes.

    Raises:
        InputError: An option is out of range, or the encoder's pooling averages layers.

    Example:
        >>> encoder = load("roberta-large", pooling="cls-mlp")
        >>> head = LinearHead(encoder.get_embedding_dimension(), classes=2)
        >>> loss = CrossEntropySupConLoss(encoder, head)
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Gunel et al.: Supervised Contrastive Learning for Pre-trained Language Model Fine-tuning. ICLR 2021.
        https://arxiv.org/abs/2011.01403
    """

    references: ClassVar[tuple[str, ...]] = ("gunel-etal-2021-supervised",)

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module,
        *,
        temperature: float = 0.3,
        weight: float = 0.9,
        reduction: Reduction = "mean",
        gather_across_devices: bool = True,
    ) -> None:
        super().__init__(model, head)
        self.temperature = check_number(self, "temperature", temperature, low=0)
        self.weight = check_number(self, "weight", weight, low=0, inclusive=True)
        if weight > 1:
            raise InputError(
                f"weight of {type(self).__name__} is {weight!r}",
                "set the weight of the contrastive term to a number from 0 to 1",
            )
        self.reduction: Reduction = check_choice(self, "reduction", reduction, get_args(Reduction))
        self.gather_across_devices = gather_across_devices
        if any(isinstance(module, WeightedLayerPooling) for module in unwrap(model).children()):
            raise InputError(
                f"{type(self).__name__} compares the first token's last hidden state, which a pooling that "
                "averages layers replaces",
                "build the encoder with pooling='cls-mlp' or another pooling of the last layer",
            )

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the head's logits, `(b, classes)`, and the vectors to compare, `(b, d)`."""
        hidden = output.get("token_embeddings")
        if not isinstance(hidden, Tensor) or len(hidden) != len(output["sentence_embedding"]):
            raise InputError(
                f"{type(self).__name__} needs the hidden states of padded texts",
                "use a transformer encoder, and set model[0].unpad_inputs = False",
            )
        return [self.head(output), hidden[:, 0]]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `ce` and `supcon` from logits `(b, classes)` and the vectors `(b, d)` to compare."""
        logits, vectors = embeddings
        entropies = self.cross_entropy(logits, labels)  # (b,)
        classes = self.gather(self.row_labels(labels, rows=len(vectors))).rows  # (n,)
        rows, anchors, share = self.gather(vectors.unsqueeze(1))  # (n, 1, d)
        losses, has_positive = supervised_contrastive(
            rows, classes, temperature=self.temperature, anchors=anchors
        )  # (b, 1), (n,)
        warn_of_few_positives(self, losses, has_positive)
        supcon = share * losses.mean()
        if self.reduction == "sum":
            supcon = len(rows) * supcon
        return {"ce": (1 - self.weight) * share * entropies.mean(), "supcon": self.weight * supcon}


class LeamLoss(ClassificationLoss):
    """Cross-entropy on texts and, with the same classifier, on label vectors: LEAM (Wang et al., 2018).

    With f the classifier, z_i the label-aware mean of text i of class y_i and L_p the label vectors::

        loss = CE(f(z_i), y_i) + CE(f(L_p), p)

    The first term is a mean over the texts of the batch, the second over all labels.

    Inputs:
        sentence; labels: class.

    Args:
        model: The encoder to train.
        head: `LeamHead`; the loss owns its weights.

    Raises:
        InputError: The head does not have a classifier for label vectors.

    Example:
        >>> encoder = load("bert-base-uncased", pooling="cls")
        >>> loss = LeamLoss(encoder, LeamHead(encoder.get_embedding_dimension(), classes=14))
        >>> trainer = SentembTrainer(encoder, train_dataset=labelled_sentences, loss=loss)

    Reference:
        Wang et al.: Joint Embedding of Words and Labels for Text Classification. ACL 2018.
        https://aclanthology.org/P18-1216
    """

    references: ClassVar[tuple[str, ...]] = ("wang-etal-2018-joint-embedding",)

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        super().__init__(model, head)
        if not hasattr(head, "label_logits"):
            raise InputError(
                f"LeamLoss also classifies label vectors, which {type(head).__name__} does not support",
                "use a LeamHead",
            )

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute `ce` and `label_ce` from the head's logits of the texts, `(b, classes)`."""
        (logits,) = embeddings
        label_logits = self.head.label_logits()  # (classes, classes)
        own = torch.arange(len(label_logits), device=label_logits.device)  # (classes,)
        return {
            "ce": mean_weight(logits) * self.cross_entropy(logits, labels).mean(),
            "label_ce": self.cross_entropy(label_logits, own).mean(),
        }
