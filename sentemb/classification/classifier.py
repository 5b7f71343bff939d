"""An encoder and a head that name the class of a text; their scores on labelled texts, and their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import Tensor

from sentemb._compat import BaseEvaluator
from sentemb._files import new_folder
from sentemb.data.labelled import LabelledTexts, score_classes
from sentemb.encoding.encoder import NonFiniteError, Vectors, check_finite, normalised
from sentemb.encoding.sentence import training_flags_kept
from sentemb.encoding.tokens import Tokens
from sentemb.errors import InputError
from sentemb.evaluation.classification import Task
from sentemb.modules import load
from sentemb.modules.files import HeadFolder
from sentemb.modules.heads import ClassificationHead, LabelHead, build_head
from sentemb.modules.loading import shortest_input
from sentemb.training.config import Metric

Scores = NDArray[np.float32]
Input = str | tuple[str, str]
"""A text, or a pair of texts that the encoder reads as one sequence, [CLS] first [SEP] second [SEP]."""

_BATCH = 64


class _Config(BaseModel):
    """`classifier/config.json`."""

    labels: list[str]
    pairs: bool
    max_length: int | None
    head: dict[str, Any]


_HEAD = HeadFolder(
    kind="classifier",
    name="classifier",
    weights="head.safetensors",
    schema=_Config,
    version=1,
    hint="use the folder that Classifier.save or fit_classifier wrote, and copy it completely",
)


class Classifier:
    """Names the class of texts, or of pairs of texts.

    A pair is read as one sequence, [CLS] first [SEP] second [SEP]; its longer text is truncated first.

    Args:
        encoder: The encoder.
        head: From what the encoder returns to logits; it is moved to the encoder's device.
        labels: Names of the classes in the order of the logits.
        pairs: Whether it classifies pairs of texts.
        max_length: Longest input in tokens, as in training; None is the encoder's own limit.

    Raises:
        InputError: The labels are not the head's classes, or the length does not fit the encoder.

    Example:
        >>> classifier = Classifier.load("cola-classifier")  # doctest: +SKIP
        >>> classifier.predict(["The cat sat on the mat."])  # doctest: +SKIP
        ['acceptable']
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        head: ClassificationHead,
        labels: Sequence[str],
        *,
        pairs: bool = False,
        max_length: int | None = None,
    ) -> None:
        self.labels = tuple(labels)
        if len(set(self.labels)) != len(self.labels) or len(self.labels) != head.classes:
            raise InputError(
                f"got {len(self.labels)} labels for a head with {head.classes} classes",
                "provide one distinct name per class",
            )
        if max_length is not None:
            shortest, longest = shortest_input(encoder, pairs=pairs), encoder.max_seq_length
            if max_length < shortest or (longest is not None and max_length > longest):
                raise InputError(
                    f"max_length {max_length} is not supported by the encoder",
                    f"use {shortest} to {longest} tokens",
                )
        self.encoder = encoder
        self.head = head.to(encoder.device)
        self.pairs = pairs
        self.max_length = max_length

    def predict(self, texts: Sequence[Input]) -> list[str]:
        """Return the most likely class of each text.

        Args:
            texts: Texts, or pairs `(first, second)`; empty strings are legal.

        Returns:
            Label names; of equal logits the first class wins.

        Raises:
            InputError: A text is of another kind, or its logits are not finite.
        """
        return [self.labels[number] for number in self.logits(texts).argmax(axis=1)]

    def predict_proba(self, texts: Sequence[Input]) -> Scores:
        """Return the probabilities of all classes, `(len(texts), classes)`: the softmax of the logits."""
        probabilities: Scores = torch.from_numpy(self.logits(texts)).softmax(dim=1).numpy()
        return probabilities

    def count_cut(self, texts: Sequence[Input]) -> int:
        """Return how many texts, or pairs, are longer than the classifier reads; see `predict`."""
        inputs = check_inputs(texts, pairs=self.pairs)
        tokenizer: Any = self.encoder.tokenizer
        longest = self.max_length or self.encoder.max_seq_length
        if longest is None or longest > 2**31 or not hasattr(tokenizer, "num_special_tokens_to_add"):
            return 0
        tokens = Tokens(tokenizer, int(longest) - tokenizer.num_special_tokens_to_add(pair=self.pairs))
        parts = ([one] if isinstance(one, str) else list(one) for one in inputs)
        # The lengths are upper bounds, and fast.
        long = [one for one in parts if sum(tokens.lengths(one)) > tokens.room]
        return sum(sum(tokens.counts(one)) > tokens.room for one in long)

    def logits(self, texts: Sequence[Input]) -> Scores:
        """Return what the head computes, `(len(texts), classes)`; label vectors give cosines over T."""
        inputs = check_inputs(texts, pairs=self.pairs)
        if not inputs:
            return np.zeros((0, len(self.labels)), dtype=np.float32)
        with training_flags_kept(self.head):
            self.head.eval()
            logits = compute(self.encoder, inputs, self.head, max_length=self.max_length)
        check_finite(logits, [str(text) for text in inputs], name="the classifier")
        return logits

    def save(self, folder: str | Path) -> None:
        """Write the classifier: a plain sentence-transformers model, with the head in `classifier/`.

        Args:
            folder: A folder that does not exist yet, or is empty; it appears when it is complete.

        Raises:
            InputError: The folder is taken.
        """
        with new_folder(Path(folder)) as partial:
            self.encoder.save_pretrained(str(partial), create_model_card=False)
            config = {"labels": list(self.labels), "pairs": self.pairs, "max_length": self.max_length}
            _HEAD.write(partial, self.head, {**config, "head": self.head.config()})

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Classifier:
        """Read a classifier that `save` or `fit_classifier` wrote.

        Args:
            folder: The folder.
            device: Where to put it; None lets sentence-transformers choose.

        Returns:
            The classifier. No code from the folder is run.

        Raises:
            InputError: There is no classifier, or it is damaged.
        """
        path = Path(folder).expanduser()
        with _HEAD.reading(path):
            config = _HEAD.read_config(path)
            head = build_head(config.head)
            _HEAD.load_weights(path, head)
        encoder = load(str(path), device=device)
        with _HEAD.reading(path):
            return cls(encoder, head, config.labels, pairs=config.pairs, max_length=config.max_length)


def check_inputs(texts: Sequence[Input], *, pairs: bool) -> list[Input]:
    """Return texts, or pairs; raise InputError for what a classifier of these cannot classify."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        given = "a single string" if isinstance(texts, str) else repr(texts)
        raise InputError(f"a classifier expects a list of texts, but got {given}", "pass a list")
    checked: list[Input] = []
    for index, text in enumerate(texts):
        parts = [text] if isinstance(text, str) else list(text) if isinstance(text, tuple | list) else []
        if len(parts) != 1 + pairs or not all(isinstance(part, str) for part in parts):
            expected = "a pair of texts (first, second)" if pairs else "a text"
            raise InputError(f"input {index} is {str(text)[:40]!r}", f"pass {expected}")
        checked.append((parts[0], parts[1]) if pairs else parts[0])
    return checked


@torch.inference_mode()
def compute(
    encoder: SentenceTransformer,
    inputs: Sequence[Input],
    function: Callable[[dict[str, Any]], Tensor],
    *,
    max_length: int | None,
    dropout: bool = False,
) -> NDArray[np.float32]:
    """Apply a function to what the encoder returns: unique inputs once, those of a length together."""
    places: dict[Input, int] = {}
    positions = [places.setdefault(one, len(places)) for one in inputs]
    unique = list(places)
    if dropout:
        positions, unique = list(range(len(inputs))), list(inputs)
    # Longest first: a batch that does not fit the memory fails at once.
    order = sorted(range(len(unique)), key=lambda place: -_characters(unique[place]))
    rows: list[NDArray[np.float32]] = []
    limit = {} if max_length is None else {"max_length": max_length}
    with training_flags_kept(encoder):
        encoder.train(dropout)
        for start in range(0, len(order), _BATCH):
            batch = [unique[place] for place in order[start : start + _BATCH]]
            features = batch_to_device(encoder.preprocess(batch, **limit), encoder.device)
            rows.append(function(encoder(features)).float().cpu().numpy())
    found = np.concatenate(rows)  # (unique, columns)
    found[order] = found.copy()
    return found[positions]


def _characters(text: Input) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])


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


def score_classifier(classifier: Classifier, data: LabelledTexts) -> dict[str, float]:
    """Compare a classifier's predictions with the labels of a set."""
    _check_labels(classifier, data)
    predicted = classifier.logits(inputs_of(data)).argmax(axis=1)
    return dict(scoring_task(data).scores(data.labels, predicted))


def _check_labels(classifier: Classifier, data: LabelledTexts) -> None:
    if classifier.labels != data.label_names:
        raise InputError(
            f"{data.name} {data.split} has the labels {', '.join(data.label_names)}, but the "
            f"classifier has {', '.join(classifier.labels)}",
            "read it with label_names=classifier.labels",
        )


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
        _check_labels(classifier, texts)
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
