"""Where a run stands, and the checkpoints that it goes on from and chooses among.

run/checkpoints/checkpoint-N/
├─ ...                      the model after N steps, where it was judged
└─ training.safetensors     everything that resumption needs; only in the newest
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sentemb.multitask.evaluation import OVERALL
from sentemb.multitask.model import MultiTaskModel
from sentemb.multitask.storage import write_model
from sentemb.training.checkpoints import checkpoint_name, checkpoints, remove_folder
from sentemb.training.state import load_state, save_state

STATE_FILE = "training.safetensors"


@dataclass
class Progress:
    """Where a run stands.

    Attributes:
        stage: Number of the stage that comes next or goes on.
        epoch: Epochs of that stage that are over.
        step: Steps of its epoch that are over.
        steps: Steps of the whole run so far.
        seconds: Time spent on steps.
        texts: Texts that the steps encoded.
        scores: Overall dev scores of the judged epochs.
        best: For each metric the `score`, and the `step` after which it was reached.
        latest: All metrics of the last judged epoch.
    """

    stage: int = 0
    epoch: int = 0
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    texts: int = 0
    scores: list[float] = field(default_factory=list)
    best: dict[str, dict[str, float]] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)

    def judge(self, metrics: dict[str, float]) -> None:
        """Note the scores of an epoch; of equal ones the earlier stays the best."""
        self.scores.append(metrics[OVERALL])
        self.latest = dict(metrics)
        for name, score in metrics.items():
            if name not in self.best or score > self.best[name]["score"]:
                self.best[name] = {"score": score, "step": self.steps}

    @property
    def best_steps(self) -> set[int]:
        """Steps whose models are the best by some metric."""
        return {int(best["step"]) for best in self.best.values()}


def save_checkpoint(
    folder: Path, progress: Progress, state: dict[str, Any], model: MultiTaskModel | None
) -> None:
    """Write a checkpoint, which appears when it is complete, and remove what it makes needless."""
    final = folder / checkpoint_name(progress.steps)
    partial = folder / f".{final.name}.partial"
    remove_folder(partial)
    partial.mkdir(parents=True)
    if model is not None:
        write_model(model, partial)
    save_state(partial / STATE_FILE, {"progress": asdict(progress), **state})
    remove_folder(final)
    partial.rename(final)
    for step, path in checkpoints(folder):
        if path == final:
            continue
        if step in progress.best_steps:
            (path / STATE_FILE).unlink(missing_ok=True)
        else:
            remove_folder(path)


def newest_checkpoint(folder: Path) -> tuple[Progress, dict[str, Any]] | None:
    """Read the checkpoint to go on from."""
    saved = [path for _, path in checkpoints(folder) if (path / STATE_FILE).is_file()]
    if not saved:
        return None
    state = load_state(saved[-1] / STATE_FILE)
    return Progress(**state.pop("progress")), state


def copy_model(checkpoint: Path, target: Path) -> None:
    """Copy the model of a checkpoint, without what resumption needs."""
    remove_folder(target)
    shutil.copytree(checkpoint, target, ignore=shutil.ignore_patterns(STATE_FILE))


def keep_best(folder: Path, progress: Progress, *, published: int) -> None:
    """Leave only the models that are best by some metric and not published already."""
    for step, path in checkpoints(folder):
        if step not in progress.best_steps or step == published:
            remove_folder(path)
        else:
            (path / STATE_FILE).unlink(missing_ok=True)


def best_places(progress: Progress, *, published: int) -> dict[str, dict[str, Any]]:
    """Where the best model by each metric lies once a run is finished."""
    places = {}
    for metric, best in progress.best.items():
        step = int(best["step"])
        path = "." if step == published else f"run/checkpoints/{checkpoint_name(step)}"
        places[metric] = {"score": best["score"], "step": step, "path": path}
    return places
