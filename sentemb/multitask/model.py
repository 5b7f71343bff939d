"""Models of sentiment, paraphrase and similarity: their heads, losses, answers and scores."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional

from sentemb._files import new_folder, read_json
from sentemb._vectors import full_precision, unit_vectors
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError
from sentemb.evaluation.measures import CorrelationError, correlate
from sentemb.modules import load
from sentemb.modules.files import HeadFolder
from sentemb.multitask.tasks import HIGHEST_SCORE, TASKS, Task, TaskSets
from sentemb.training.config import Sharing

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Pair = tuple[str, str]
METRICS: Mapping[Task, str] = {
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
OVERALL = "overall"
"""The plain mean of the three, which is how the paper's tables add up."""


class TaskHeads(nn.Module):
    """Sentiment as classification, paraphrase as a bilinear form, similarity as a cosine.

    Each task has a network of two linear layers with dropout before each and ReLU between them (Chen,
    sections 4.2 and 5.3; the activation is not named there). With t1 and t2 the transformed vectors of a
    pair, the logit of paraphrase is t1^T W t2 + b, and similarity is cos(t1, t2).

    `first-layer` (the paper's choice) shares the first linear layer of paraphrase and similarity, `full`
    both layers, `separate` none. With `none` there is nothing but sentiment's linear layer, and both pair
    tasks take the cosine of the sentence vectors: the baseline of Table 1, for which nearly every pair is a
    paraphrase, since few cosines are negative.
    """

    def __init__(
        self, width: int, classes: int = 5, *, sharing: Sharing = "first-layer", dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.width, self.classes, self.dropout = width, classes, dropout
        self.sharing: Sharing = sharing

        def layer(outputs: int) -> list[nn.Module]:
            return [nn.Dropout(dropout), nn.Linear(width, outputs)]

        last = layer(classes)
        self.sentiment = nn.Sequential(*(last if sharing == "none" else [*layer(width), nn.ReLU(), *last]))
        self.first, self.second = nn.ModuleDict(), nn.ModuleDict()
        self.bilinear: nn.Bilinear | None = None
        if sharing != "none":
            for task in TASKS[1:]:
                first, second = self._names(task)
                if first not in self.first:
                    self.first[first] = nn.Sequential(*layer(width), nn.ReLU())
                if second not in self.second:
                    self.second[second] = nn.Sequential(*layer(width))
            self.bilinear = nn.Bilinear(width, width, 1)

    def forward(self, task: Task, *vectors: Tensor) -> Tensor:
        """Return what a task predicts for sentence vectors `(n, d)`, for pairs those of both sides.

        Logits `(n, classes)` of sentiment, logits `(n,)` of paraphrase, cosines `(n,)` of similarity.
        """
        if task == "sentiment":
            logits: Tensor = self.sentiment(*vectors)  # (n, classes)
            return logits
        if self.sharing != "none":
            first_layer, second_layer = self._names(task)
            vectors = tuple(self.second[second_layer](self.first[first_layer](one)) for one in vectors)
        first, second = vectors  # each (n, d)
        if task == "paraphrase" and self.bilinear is not None:
            # Autocast has no bilinear form: the vectors take the type of its weight here.
            kind = self.bilinear.weight.dtype
            logit: Tensor = self.bilinear(first.to(kind), second.to(kind)).squeeze(1)  # (n,)
            return logit
        with torch.autocast(first.device.type, enabled=False):
            return (unit_vectors(first) * unit_vectors(full_precision(second))).sum(dim=1)  # (n,)

    def config(self) -> dict[str, Any]:
        """Return the constructor's arguments, as JSON values."""
        return {name: getattr(self, name) for name in ("width", "classes", "sharing", "dropout")}

    def _names(self, task: Task) -> tuple[str, str]:
        """Return the layers of a pair task. A shared one has one name, so it is saved once."""
        first = task if self.sharing == "separate" else "pair"
        return first, "pair" if self.sharing == "full" else task


def task_loss(task: Task, predicted: Tensor, labels: Tensor, *, nominal_rows: int | None = None) -> Tensor:
    """Return cross-entropy, binary cross-entropy, or squared error to y / 5, which the paper does not name.

    With `nominal_rows` the sum of sentiment's losses is divided by that number.
    """
    with torch.autocast(predicted.device.type, enabled=False):
        predicted = full_precision(predicted)
        if task == "sentiment":
            rows = len(labels) if nominal_rows is None else nominal_rows
            return functional.cross_entropy(predicted, labels.long(), reduction="sum") / rows
        labels = labels.to(predicted.dtype)
        if task == "paraphrase":
            return functional.binary_cross_entropy_with_logits(predicted, labels)
        return functional.mse_loss(predicted, labels / HIGHEST_SCORE)


class _HeadsConfig(BaseModel):
    """The arguments of `TaskHeads`."""

    model_config = ConfigDict(extra="forbid")
    width: int
    classes: int
    sharing: Sharing
    dropout: float


class _Config(BaseModel):
    """`multitask/config.json`."""

    sentiments: list[str]
    shifted: Literal[False] = False  # earlier versions could train similarity on 5 (cos + 1) / 2
    heads: _HeadsConfig


_HEADS = HeadFolder(
    "multi-task model",
    "multitask",
    "heads.safetensors",
    _Config,
    1,
    "use the folder that save or fit_multitask wrote, and copy it completely",
)


class TaskModels:
    """Models for the three tasks: one for all, or one for each."""

    models: Mapping[Task, MultiTaskModel]

    def predict_sentiment(self, texts: Sequence[str]) -> list[str]:
        """Return the name of the most likely sentiment of each text."""
        member = self.models["sentiment"]
        answers = member.answer("sentiment", member.encode(texts))
        return [member.sentiments[int(number)] for number in answers]

    def predict_paraphrase(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return whether the two texts of each pair are paraphrases."""
        return [bool(one) for one in self._answer_pairs("paraphrase", pairs)]

    def predict_similarity(self, pairs: Sequence[Pair]) -> Floats:
        """Return how similar the two texts of each pair are, `(len(pairs),)`, on the scale of STS.

        5 is for texts that say the same; a negative cosine gives a negative score.
        """
        return self._answer_pairs("similarity", pairs)

    def _answer_pairs(self, task: Task, pairs: Sequence[Pair]) -> Floats:
        if isinstance(pairs, str):
            raise InputError("expected pairs of texts, got a single string", "pass [(first, second), ...]")
        for index, pair in enumerate(pairs):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or {*map(type, pair)} != {str}:
                raise InputError(f"pair {index} is {str(pair)[:40]!r}", "pass two texts (first, second)")
        texts, member = [pair[side] for side in (0, 1) for pair in pairs], self.models[task]
        return member.answer(task, *np.split(member.encode(texts), 2))


class MultiTaskModel(TaskModels):
    """An encoder and the heads of its tasks.

    The texts of a pair are encoded one by one: a unique text costs one forward pass, however many pairs and
    tasks it is in.

    Args:
        encoder: The encoder; inputs are truncated at its `max_seq_length`.
        heads: The heads; they are moved to the encoder's device.
        sentiments: Names of the classes of sentiment, in the order of the logits.

    Raises:
        InputError: Encoder, heads and names do not fit each other.

    Example:
        >>> model = MultiTaskModel.load("multitask-base")  # doctest: +SKIP
        >>> model.predict_sentiment(["A warm, funny, engaging film."])  # doctest: +SKIP
        ['positive']
        >>> model.predict_similarity([("A dog plays.", "A dog is playing.")])  # doctest: +SKIP
        array([4.7], dtype=float32)
    """

    def __init__(self, encoder: SentenceTransformer, heads: TaskHeads, sentiments: Sequence[str]) -> None:
        if not len(set(sentiments)) == len(sentiments) == heads.classes:
            raise InputError(
                f"got {len(sentiments)} names for {heads.classes} sentiment classes",
                "provide one distinct name per class",
            )
        if (width := encoder.get_embedding_dimension()) != heads.width:
            raise InputError(
                f"the encoder's vectors have {width} dimensions, but the heads expect {heads.width}",
                "build the heads with width=encoder.get_embedding_dimension()",
            )
        self.encoder, self.heads = encoder, heads.to(encoder.device)
        self.sentiments = tuple(sentiments)
        self.models = dict.fromkeys(TASKS, self)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return sentence vectors, `(len(texts), d)`, each unique text encoded once."""
        return load_encoder(self.encoder).encode(texts)

    @torch.no_grad()
    def answer(self, task: Task, *vectors: Floats) -> Floats:
        """Return what a task says about texts that are already encoded.

        Args:
            task: The task.
            *vectors: Sentence vectors `(n, d)`; for a pair task the first texts' and the second ones'.

        Returns:
            `(n,)`: class numbers, 1 for paraphrases and 0 for others, or scores.
        """
        columns = [torch.from_numpy(np.ascontiguousarray(one)).to(self.encoder.device) for one in vectors]
        with training_flags_kept(self.heads):
            self.heads.eval()
            predicted = self.heads(task, *columns)
        if task == "sentiment":
            predicted = predicted.argmax(dim=1)
        elif task == "paraphrase":
            # The paper rounds the sigmoid, which is above one half where the logit is above 0.
            predicted = predicted > 0
        else:
            predicted = HIGHEST_SCORE * predicted
        return np.asarray(predicted.float().cpu().numpy())

    def save(self, folder: str | Path) -> None:
        """Write the model: a plain sentence-transformers model, with the heads in `multitask/`.

        Args:
            folder: A folder that does not exist yet, or is empty; it appears when it is complete.

        Raises:
            InputError: The folder is taken.
        """
        with new_folder(Path(folder)) as partial:
            self.encoder.save_pretrained(str(partial), create_model_card=False)
            self.write_heads(partial)

    def write_heads(self, folder: Path) -> None:
        """Write the heads next to an encoder, so that the folder loads as a whole model."""
        config = {"sentiments": list(self.sentiments), "heads": self.heads.config()}
        _HEADS.write(folder, self.heads, config)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> MultiTaskModel:
        """Read a model that `save` or `fit_multitask` wrote.

        Args:
            folder: The folder.
            device: Where to put it; None lets sentence-transformers choose.

        Returns:
            The model. No code from the folder is run.

        Raises:
            InputError: There is no such model, or it is damaged.
        """
        path = Path(folder).expanduser()
        with _HEADS.reading(path):
            config = _HEADS.read_config(path)
            heads = TaskHeads(**config.heads.model_dump())
            _HEADS.load_weights(path, heads)
        encoder = load(str(path), device=device)
        with _HEADS.reading(path):
            return cls(encoder, heads, config.sentiments)


class TaskEnsemble(TaskModels):
    """Answers each task with a model of its own: routing, not averaging (Chen, section 4.2).

    It answers as `MultiTaskModel` does.

    Args:
        models: The model of each task; one may answer several.

    Raises:
        InputError: A task does not have a model.

    Example:
        >>> models = {"sentiment": first, "paraphrase": second, "similarity": second}  # doctest: +SKIP
        >>> ensemble = TaskEnsemble(models)  # doctest: +SKIP
    """

    def __init__(self, models: Mapping[Task, MultiTaskModel]) -> None:
        if missing := [task for task in TASKS if task not in models]:
            raise InputError(f"the model for {', '.join(missing)} is missing", "provide one for each task")
        self.models = {task: models[task] for task in TASKS}

    @classmethod
    def of_runs(cls, runs: Sequence[str | Path], *, device: str | None = None) -> TaskEnsemble:
        """Take for each task the checkpoint with the best dev score among finished runs.

        Args:
            runs: Folders of runs, whose dev sets are the same; of equal scores the first run wins.
            device: Where to put the models.

        Returns:
            The ensemble.

        Raises:
            InputError: There is no run, one is not finished, or they were evaluated on different dev sets.
        """
        places = best_checkpoints([Path(run).expanduser() for run in runs])
        loaded = {place: MultiTaskModel.load(place, device=device) for place in {*places.values()}}
        return cls({task: loaded[place] for task, place in places.items()})


def best_checkpoints(runs: Sequence[Path]) -> dict[Task, Path]:
    """Return the folder of the best model of each task among finished runs."""
    if not runs:
        raise InputError("an ensemble needs at least one run", "list the folders of finished runs")
    records = {run: read_json(run / "run" / "record.json") for run in runs}
    for run, record in records.items():
        if not isinstance(record, dict) or record.get("status") != "finished" or "best" not in record:
            raise InputError(f"{run} is not a finished multi-task run", "finish it with --resume")
    if len({tuple(one["data"]["dev"][task]["sha256"] for task in TASKS) for one in records.values()}) > 1:
        raise InputError("the runs were evaluated on different dev sets", "train them on the same data")
    places: dict[Task, Path] = {}
    for task, metric in METRICS.items():
        run = max(records, key=lambda run: records[run]["best"][metric]["score"])
        places[task] = run / records[run]["best"][metric]["path"]
    return places


def evaluate_tasks(model: TaskModels, sets: TaskSets) -> dict[str, float]:
    """Score a model: accuracy of sentiment and paraphrase, Pearson's correlation of similarity, their mean.

    Args:
        model: A model, or an ensemble.
        sets: Labelled texts of each task.

    Returns:
        The entries of `METRICS` and `overall`, as fractions. A correlation that does not exist counts as 0.

    Example:
        >>> evaluate_tasks(MultiTaskModel.load("multi"), dev)  # doctest: +SKIP
    """
    return score_tasks(predict_tasks(model, sets), sets)


def predict_tasks(model: TaskModels, sets: TaskSets) -> dict[Task, Floats]:
    """Answer every row of the sets; each model encodes every unique text of its tasks once."""
    predicted: dict[Task, Floats] = {}
    for member in dict.fromkeys(model.models.values()):
        columns = {task: sets.columns(task) for task in TASKS if model.models[task] is member}
        vectors = member.encode([text for one in columns.values() for column in one for text in column])
        for task, one in columns.items():
            own, vectors = np.split(vectors, [len(one) * len(one[0])])
            predicted[task] = member.answer(task, *np.split(own, len(one)))
    return predicted


def score_tasks(predicted: Mapping[Task, Floats], sets: TaskSets) -> dict[str, float]:
    """Score predictions."""
    scores = {METRICS[task]: float(np.mean(predicted[task] == data.labels)) for task, data in sets}
    data = sets.similarity
    try:
        correlation = correlate("pearson", predicted["similarity"], data.labels.astype(np.float64))
    except CorrelationError as error:
        logger.warning("the similarity score on %s %s is set to 0: %s", data.name, data.split, error)
        correlation = 0.0
    scores[METRICS["similarity"]] = correlation
    return scores | {OVERALL: float(np.mean(list(scores.values())))}
