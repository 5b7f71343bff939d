"""Several models, of which each task asks the one that is best at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._files import new_folder, read_json
from sentemb.errors import InputError
from sentemb.multitask.evaluation import METRICS
from sentemb.multitask.model import Floats, MultiTaskModel, Pair
from sentemb.multitask.storage import read_ensemble, write_ensemble
from sentemb.multitask.tasks import TASKS, Task


class TaskEnsemble:
    """Answers each task with a model of its own: routing, not averaging (Chen, section 4.2).

    It answers as `MultiTaskModel` does.

    Args:
        models: The model of each task; one may answer several.

    Raises:
        InputError: A task has no model.
    """

    def __init__(self, models: Mapping[Task, MultiTaskModel]) -> None:
        if missing := [task for task in TASKS if task not in models]:
            raise InputError(f"no model for {', '.join(missing)}", "give one for each task")
        self.models = {task: models[task] for task in TASKS}

    def predict_sentiment(self, texts: Sequence[str]) -> list[str]:
        """See `MultiTaskModel.predict_sentiment`."""
        return self.models["sentiment"].predict_sentiment(texts)

    def predict_paraphrase(self, pairs: Sequence[Pair]) -> list[bool]:
        """See `MultiTaskModel.predict_paraphrase`."""
        return self.models["paraphrase"].predict_paraphrase(pairs)

    def predict_similarity(self, pairs: Sequence[Pair]) -> Floats:
        """See `MultiTaskModel.predict_similarity`."""
        return self.models["similarity"].predict_similarity(pairs)

    def save(self, folder: str | Path) -> None:
        """Write all models into one folder.

        Args:
            folder: A folder that does not exist yet, or is empty; it appears when it is complete.

        Raises:
            InputError: The folder is taken.
        """
        with new_folder(Path(folder)) as partial:
            write_ensemble(self.models, partial)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> TaskEnsemble:
        """Read an ensemble that `save` wrote.

        Args:
            folder: The folder.
            device: Where to put the models; None lets sentence-transformers choose.

        Returns:
            The ensemble.

        Raises:
            InputError: There is no ensemble, or it is damaged.
        """
        return cls(read_ensemble(Path(folder).expanduser(), device=device))

    @classmethod
    def of_runs(cls, runs: Sequence[str | Path], *, device: str | None = None) -> TaskEnsemble:
        """Take for each task the checkpoint with the best dev score among finished runs.

        Args:
            runs: Folders of runs, whose dev sets are the same; of equal scores the first run wins.
            device: Where to put the models.

        Returns:
            The ensemble.

        Raises:
            InputError: There is no run, one is not finished, or they were judged on different dev sets.
        """
        places = best_checkpoints([Path(run).expanduser() for run in runs])
        loaded = {place: MultiTaskModel.load(place, device=device) for place in set(places.values())}
        return cls({task: loaded[place] for task, place in places.items()})


def best_checkpoints(runs: Sequence[Path]) -> dict[Task, Path]:
    """Find the model of each task among finished runs."""
    if not runs:
        raise InputError("an ensemble of no runs", "name the folders of one or more finished runs")
    records = [_finished(run) for run in runs]
    judged_on = {tuple(record["data"]["dev"][task]["sha256"] for task in TASKS) for record in records}
    if len(judged_on) > 1:
        raise InputError("the runs were judged on different dev sets", "train them on the same data")
    places: dict[Task, Path] = {}
    for task in TASKS:
        bests = [record["best"][METRICS[task]] for record in records]
        chosen = max(range(len(runs)), key=lambda index: bests[index]["score"])
        places[task] = runs[chosen] / bests[chosen]["path"]
    return places


def _finished(run: Path) -> dict[str, Any]:
    path = run / "run" / "record.json"
    record = read_json(path)
    if not isinstance(record, dict) or record.get("status") != "finished" or "best" not in record:
        raise InputError(f"{run} holds no finished run of several tasks", "finish it with --resume")
    return record
