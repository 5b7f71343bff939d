"""Models that name the sentiment of a text, recognize paraphrases and grade similarity, and their scores."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer

from sentemb._files import new_folder, read_json
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import training_flags_kept
from sentemb.errors import InputError
from sentemb.evaluation.measures import CorrelationError, correlate
from sentemb.modules import load
from sentemb.modules.files import HeadFolder
from sentemb.multitask.heads import TaskHeads, scores_of
from sentemb.multitask.tasks import TASKS, Task, TaskSets

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
_HINT = "use the folder that save or fit_multitask wrote, and copy it completely"


class _HeadsConfig(BaseModel):
    """The arguments of `TaskHeads`."""

    model_config = ConfigDict(extra="forbid")
    width: int
    classes: int
    sharing: Any  # `TaskHeads` checks it
    dropout: float


class _Config(BaseModel):
    """`multitask/config.json`."""

    sentiments: list[str]
    shifted: bool
    heads: _HeadsConfig


_HEADS = HeadFolder("multi-task model", "multitask", "heads.safetensors", _Config, 1, _HINT)


class TaskModels:
    """Models for the three tasks: one for all, or one for each.

    Attributes:
        models: The model that answers each task.
    """

    models: Mapping[Task, MultiTaskModel]

    def predict_sentiment(self, texts: Sequence[str]) -> list[str]:
        """Return the most likely sentiment of each text.

        Args:
            texts: Texts; empty ones are legal.

        Returns:
            Names of classes; of equal logits the first class wins.

        Raises:
            InputError: A text is not a string.
        """
        member = self.models["sentiment"]
        answers = member.answer("sentiment", member.encode(texts))
        return [member.sentiments[int(number)] for number in answers]

    def predict_paraphrase(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return whether the two texts of each pair are paraphrases."""
        return [bool(one) for one in self._answer_pairs("paraphrase", pairs)]

    def predict_similarity(self, pairs: Sequence[Pair]) -> Floats:
        """Return how similar the two texts of each pair are.

        Args:
            pairs: Pairs of texts.

        Returns:
            `(len(pairs),)`, on the scale of STS: 5 for texts that say the same. Without `shifted` a negative
            cosine gives a negative score.

        Raises:
            InputError: An entry is not a pair of texts.
        """
        return self._answer_pairs("similarity", pairs)

    def _answer_pairs(self, task: Task, pairs: Sequence[Pair]) -> Floats:
        first, second = split_pairs(pairs)
        member = self.models[task]
        return member.answer(task, *np.split(member.encode([*first, *second]), 2))


class MultiTaskModel(TaskModels):
    """An encoder and the heads of its tasks.

    The texts of a pair are encoded one by one: a unique text costs one forward pass, however many pairs and
    tasks it is in.

    Args:
        encoder: The encoder; inputs are truncated at its `max_seq_length`.
        heads: The heads; they are moved to the encoder's device.
        sentiments: Names of the classes of sentiment, in the order of the logits.
        shifted: Whether a cosine of -1 stands for the score 0, instead of a cosine of 0.

    Raises:
        InputError: Encoder, heads and names do not fit each other.

    Example:
        >>> model = MultiTaskModel.load("multitask-base")  # doctest: +SKIP
        >>> model.predict_sentiment(["A warm, funny, engaging film."])  # doctest: +SKIP
        ['positive']
        >>> model.predict_similarity([("A dog plays.", "A dog is playing.")])  # doctest: +SKIP
        array([4.7], dtype=float32)
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        heads: TaskHeads,
        sentiments: Sequence[str],
        *,
        shifted: bool = False,
    ) -> None:
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
        self.sentiments, self.shifted = tuple(sentiments), shifted
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
            predicted = scores_of(predicted, shifted=self.shifted)
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
        """Write the heads next to a saved encoder."""
        config = {"sentiments": list(self.sentiments), "shifted": self.shifted, "heads": self.heads.config()}
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
            return cls(encoder, heads, config.sentiments, shifted=config.shifted)


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

    def save(self, folder: str | Path) -> None:
        """Write the model of each task into a folder of the task's name; see `MultiTaskModel.save`."""
        with new_folder(Path(folder)) as partial:
            for task, model in self.models.items():
                model.save(partial / task)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> TaskEnsemble:
        """Read an ensemble that `save` wrote; see `MultiTaskModel.load`."""
        place = Path(folder).expanduser()
        if not all((place / task).is_dir() for task in TASKS):
            raise InputError(f"{folder} is not an ensemble: it lacks a model of each task", _HINT)
        return cls({task: MultiTaskModel.load(place / task, device=device) for task in TASKS})

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
        loaded = {
            place: MultiTaskModel.load(place, device=device) for place in dict.fromkeys(places.values())
        }
        return cls({task: loaded[place] for task, place in places.items()})


def best_checkpoints(runs: Sequence[Path]) -> dict[Task, Path]:
    """Return the folder of the best model of each task among finished runs."""
    if not runs:
        raise InputError(
            "an ensemble needs at least one run", "list the folders of one or more finished runs"
        )
    records = [read_json(run / "run" / "record.json") for run in runs]
    for run, record in zip(runs, records, strict=True):
        if not isinstance(record, dict) or record.get("status") != "finished" or "best" not in record:
            raise InputError(f"{run} is not a finished multi-task run", "finish it with --resume")
    if len({tuple(record["data"]["dev"][task]["sha256"] for task in TASKS) for record in records}) > 1:
        raise InputError("the runs were evaluated on different dev sets", "train them on the same data")
    places: dict[Task, Path] = {}
    for task in TASKS:
        bests = [(record["best"][METRICS[task]], run) for record, run in zip(records, runs, strict=True)]
        best, run = max(bests, key=lambda one: one[0]["score"])
        places[task] = run / best["path"]
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
        texts = dict.fromkeys(text for one in columns.values() for column in one for text in column)
        vectors, places = member.encode(list(texts)), {text: place for place, text in enumerate(texts)}
        for task, one in columns.items():
            rows = [vectors[[places[text] for text in column]] for column in one]
            predicted[task] = member.answer(task, *rows)
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


def split_pairs(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Divide pairs into their first and second texts."""
    if isinstance(pairs, str):
        raise InputError("expected pairs of texts, got a single string", "pass [(first, second), ...]")
    for index, pair in enumerate(pairs):
        whole = isinstance(pair, tuple | list) and len(pair) == 2
        if not whole or not all(isinstance(text, str) for text in pair):
            raise InputError(f"pair {index} is {str(pair)[:40]!r}", "pass two texts (first, second)")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
