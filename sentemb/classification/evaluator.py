"""Scores of a classifier on labelled texts, and its vectors of texts and classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from sentemb._compat import BaseEvaluator
from sentemb.classification.classifier import Classifier, Input, check_inputs, compute
from sentemb.data.labelled import LabelledTexts, score_classes
from sentemb.encoding.encoder import NonFiniteError, Vectors, normalised
from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError
from sentemb.evaluation.classification import Task
from sentemb.modules.heads import ClassificationHead, LabelHead
from sentemb.training.config import Metric


class ClassifierEvaluator(BaseEvaluator):
    """Score a head on the encoder during training.

    Args:
        head: The head in training.
        data: Labelled texts; their classes are the head's.
        metric: The metric that selects the best checkpoint.
        max_length: Longest input in tokens, None for the encoder's own limit.
        name: Prefix of the metrics.

    Raises:
        InputError: The metric needs another number of classes.

    Example:
        >>> evaluator = ClassifierEvaluator(head, validation)  # doctest: +SKIP
        >>> evaluator(model)["validation_accuracy"]  # doctest: +SKIP
    """

    def __init__(
        self,
        head: ClassificationHead,
        data: LabelledTexts,
        *,
        metric: Metric = "accuracy",
        max_length: int | None = None,
        name: str = "validation",
    ) -> None:
        super().__init__()
        if metric == "f1" and len(data.label_names) != 2:
            raise InputError(
                f"the metric f1 is defined for two classes, but {data.name} has {len(data.label_names)}",
                "use macro_f1",
            )
        self.head = head
        self.data = data
        self.max_length = max_length
        self.name = name
        self.metric = metric
        self.primary_metric = f"{name}_{metric}" if name else metric

    @property
    def best_metric_key(self) -> str:
        """The exact value for `metric_for_best_model`."""
        return f"eval_{self.primary_metric}"

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Evaluate, in the way every sentence-transformers trainer calls it."""
        encoder: SentenceTransformer = getattr(model, "module", model)  # of a wrapper such as DDP
        classifier = Classifier(
            encoder,
            self.head,
            self.data.label_names,
            pairs=self.data.pairs is not None,
            max_length=self.max_length,
        )
        try:
            metrics = score_classifier(classifier, self.data)
        except NonFiniteError as error:
            why = f"the classifier gives NaN or infinity after step {steps}"
            raise InputError(why, "lower the learning rate or the weight decay") from error
        prefixed: dict[str, float] = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(encoder, prefixed, epoch, steps)
        return prefixed

    def scorer(self, vectors: Tensor) -> Callable[[], float]:
        """Return a function that scores the head on vectors `(n, d)` which do not change."""

        @torch.no_grad()
        def score() -> float:
            predicted = self.head({"sentence_embedding": vectors}).argmax(dim=1).cpu().numpy()
            return scoring_task(self.data, self.metric).scores(self.data.labels, predicted)[self.metric]

        return score

    def get_config_dict(self) -> dict[str, Any]:
        """Return what was evaluated, for the model card."""
        return {"set": self.data.name, "split": self.data.split, "texts": len(self.data)}


def score_classifier(classifier: Classifier, data: LabelledTexts) -> dict[str, float]:
    """Compare a classifier's predictions with the labels of a set."""
    if classifier.labels != data.label_names:
        raise InputError(
            f"{data.name} {data.split} has the labels {', '.join(data.label_names)}, but the "
            f"classifier has {', '.join(classifier.labels)}",
            "read it with label_names=classifier.labels",
        )
    predicted = classifier.logits(inputs_of(data)).argmax(axis=1)
    return dict(scoring_task(data).scores(data.labels, predicted))


def scoring_task(data: LabelledTexts, metric: Metric = "accuracy") -> Task:
    """Return how predictions for a set are scored, whatever the set is called."""
    return Task(data.name, metric, data.pairs is not None, len(data.label_names))


def inputs_of(data: LabelledTexts) -> list[Input]:
    """Return the texts of a set, as a classifier takes them."""
    return list(data.texts) if data.pairs is None else list(zip(data.texts, data.pairs, strict=True))


def grade_classes(data: LabelledTexts, *, decimals: int | None = 1) -> LabelledTexts:
    """Return a set with a class for each grade, as SupCL-Seq does for STS-B (footnote 3)."""
    if data.label_names:
        raise InputError(
            f"the labels of {data.name} are classes, not scores", "use a set with scores, such as stsb-glue"
        )
    grades = data.labels.astype(np.float64)
    different = np.unique(grades if decimals is None else np.round(grades, decimals))
    names = tuple(str(float(grade)) for grade in different)
    return replace(data, labels=score_classes(grades, decimals=decimals), label_names=names)


def score_grades(classifier: Classifier, data: LabelledTexts) -> dict[str, float]:
    """Correlate the mean of all grades under the predicted probabilities with the grades of a set."""
    grades = np.array([float(name) for name in classifier.labels])
    predicted = classifier.predict_proba(inputs_of(data)) @ grades  # (n,)
    task = Task(data.name, "spearman", data.pairs is not None, 0)  # SupCL-Seq, table 2
    return dict(task.scores(data.labels, predicted))


def map_classes(folders: Sequence[Path], texts: LabelledTexts) -> dict[str, tuple[Vectors, Vectors | None]]:
    """Return unit vectors of texts, and of labels if it has any, of each classifier by its folder's name."""
    found = {}
    for folder in folders:
        classifier = Classifier.load(folder)
        if classifier.labels != texts.label_names:
            raise InputError(
                f"{folder} has the classes {', '.join(classifier.labels[:5])}, but {texts.name} has "
                f"{', '.join(texts.label_names[:5])}",
                "use a set with the classifier's classes",
            )
        head, labels = classifier.head, None
        embed: Callable[[dict[str, Any]], Tensor] = itemgetter("sentence_embedding")
        if isinstance(head, LabelHead):
            embed = head.embed
            labels = normalised(head.label_vectors.detach().float().cpu().numpy())
        with training_flags_kept(head), torch.inference_mode():
            head.eval()
            inputs = check_inputs(inputs_of(texts), pairs=classifier.pairs)
            vectors = compute(classifier.encoder, inputs, embed, max_length=classifier.max_length)
        found[folder.name] = normalised(vectors), labels
    if len(found) < len(folders):
        raise InputError(
            "two folders have the same name, which is the title of their panels", "rename one of them"
        )
    return found
