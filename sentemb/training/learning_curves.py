"""How the measures of a dev set went over the steps of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._uris import local_path
from sentemb.data.files import name_and_split, names_a_file
from sentemb.errors import InputError
from sentemb.training.folder import RunFolder
from sentemb.training.values import read_toml

_PREFIX = "eval_dev_"


class LearningCurves(NamedTuple):
    """Measures over the steps of a run.

    Attributes:
        dev: What results call the dev set.
        steps: The steps after which the dev set was evaluated, ascending; 0 is the base model.
        values: Measure to its value at each step.
    """

    dev: str
    steps: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]


def read_learning_curves(folder: Path, measures: Sequence[str]) -> LearningCurves | None:
    """Read measures from the metrics of a run."""
    run = RunFolder(folder)
    if not (run.config.is_file() and run.metrics.is_file()):
        return None
    config = read_toml(run.config)
    if "dev" not in config:
        return None
    names = [_PREFIX + measure for measure in measures]
    # A step can be evaluated twice: at its turn, and at the end of the run.
    entries = {
        int(entry["step"]): entry for entry in _entries(run.metrics) if all(name in entry for name in names)
    }
    if not entries:
        raise InputError(
            f"{run.metrics} does not contain a step with {' and '.join(measures)}",
            "train with a dev set (--dev) to record them",
        )
    steps = tuple(sorted(entries))
    values = {
        measure: tuple(float(entries[step][name]) for step in steps)
        for measure, name in zip(measures, names, strict=True)
    }
    dev = config["dev"]
    return LearningCurves(name_and_split(local_path(dev))[0] if names_a_file(dev) else dev, steps, values)


def _entries(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(json.loads(line))
        except (ValueError, RecursionError):
            # A kill, or a run that is still going on, can leave half a line at the end.
            if number < len(lines):
                raise InputError(f"{path}:{number} is not valid JSON") from None
    return entries
