"""Several models, each of which answers the tasks that it is best at.

folder/
├─ ensemble.json            which model answers which task
└─ models/0/ ...            multi-task models
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._files import new_folder, read_json
from sentemb.errors import InputError
from sentemb.modules.head_files import read_config, write_config
from sentemb.multitask.evaluation import METRICS
from sentemb.multitask.model import HINT, Floats, MultiTaskModel, Pair
from sentemb.multitask.tasks import TASKS, Task

ENSEMBLE_FILE = "ensemble.json"
VERSION = 1


class TaskEnsemble:
    """Answers each task with a model of its own: routing, not averaging (Chen, section 4.2).

    It answers as `MultiTaskModel` does.

    Args:
        models: The model of each task; one may answer several.

    Raises:
        InputError: A task has no model.

    Example:
        >>> models = {"sentiment": first, "paraphrase": second, "similarity": second}  # doctest: +SKIP
        >>> ensemble = TaskEnsemble(models)  # doctest: +SKIP
    """

    def __init__(self, models: Mapping[Task, MultiTaskModel]) -> None:
        if missing := [task for task in TASKS if task not in models]:
            raise InputError(f"the model for {', '.join(missing)} is missing", "provide one for each task")
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
        # A model that answers several tasks is written once.
        members = list(dict.fromkeys(self.models.values()))
        places = {model: f"models/{number}" for number, model in enumerate(members)}
        with new_folder(Path(folder)) as partial:
            for model, place in places.items():
                model.save(partial / place)
            routes = {task: places[model] for task, model in self.models.items()}
            write_config(partial / ENSEMBLE_FILE, {"routes": routes}, version=VERSION)

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
        path = Path(folder).expanduser() / ENSEMBLE_FILE
        if not path.is_file():
            raise InputError(f"{folder} is not an ensemble: {ENSEMBLE_FILE} is missing", HINT)
        routes = read_config(path, version=VERSION, hint=HINT).get("routes")
        if not isinstance(routes, dict) or set(routes) != set(TASKS):
            raise InputError(f"{path} does not specify a model for each task", HINT)
        top = path.parent.resolve()
        # A place outside the folder would make an ensemble depend on where it lies.
        if not all(
            isinstance(one, str) and (top / one).resolve().is_relative_to(top) for one in routes.values()
        ):
            raise InputError(f"{path} refers to a model outside its folder", HINT)
        return cls._of_places({task: path.parent / routes[task] for task in TASKS}, device=device)

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
        return cls._of_places(best_checkpoints([Path(run).expanduser() for run in runs]), device=device)

    @classmethod
    def _of_places(cls, places: Mapping[Task, Path], *, device: str | None) -> TaskEnsemble:
        loaded = {
            place: MultiTaskModel.load(place, device=device) for place in dict.fromkeys(places.values())
        }
        return cls({task: loaded[place] for task, place in places.items()})


def best_checkpoints(runs: Sequence[Path]) -> dict[Task, Path]:
    """Find the model of each task among finished runs."""
    if not runs:
        raise InputError(
            "an ensemble needs at least one run", "list the folders of one or more finished runs"
        )
    records = [_finished(run) for run in runs]
    dev_sets = {tuple(record["data"]["dev"][task]["sha256"] for task in TASKS) for record in records}
    if len(dev_sets) > 1:
        raise InputError("the runs were evaluated on different dev sets", "train them on the same data")
    places: dict[Task, Path] = {}
    for task in TASKS:
        bests = [record["best"][METRICS[task]] for record in records]
        chosen = max(range(len(runs)), key=lambda index: bests[index]["score"])
        places[task] = runs[chosen] / bests[chosen]["path"]
    return places


def _finished(run: Path) -> dict[str, Any]:
    record = read_json(run / "run" / "record.json")
    if not isinstance(record, dict) or record.get("status") != "finished" or "best" not in record:
        raise InputError(f"{run} is not a finished multi-task run", "finish it with --resume")
    return record
