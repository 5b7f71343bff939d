"""Records of classification trials, made of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sentemb.evaluation.classification import Metric, Task
from sentemb.evaluation.schema import Record, Score, Trial
from tests.records import data_set, make_record


def record(name: str, seed: int | None, gold: np.ndarray, predictions: np.ndarray, **changes: Any) -> Record:
    """A record; `changes` name what is not usual about it."""
    metric: Metric = "accuracy"
    data = changes.get("data", "toy")
    classes = max(2, int(gold.max()) + 1)
    names = tuple(f"class-{number}" for number in range(classes))
    scores = Task("toy", metric, False, classes).scores(gold, predictions)
    made = make_record(
        "classification",
        name,
        [data_set(data, len(gold), content=changes.get("content", ""), classes=names)],
        [
            *((data, one, value) for one, value in scores.items()),
            Score(dataset=data, metric=metric, protocol="validation", value=changes.get("validation", 0.5)),
        ],
        protocol="full",
        seed=seed,
        trial=Trial(
            experiment="toy",
            method=name,
            setting=changes.get("setting", {}),
            options=changes.get("options", {}),
        ),
        details={
            "metric": metric,
            "sizes": {"train": 10, "validation": 5, "test": len(gold)},
            "class_counts": changes.get("counts", {one: 5 + number for number, one in enumerate(names)}),
            "left_out": changes.get("left_out", {}),
            "minority": changes.get("minority"),
        },
    )
    return made.with_predictions({data: predictions}, {data: gold})


def runs(
    name: str, accuracy: float, *, seeds: int = 5, rows: int = 300, draw: int = 0, **changes: Any
) -> list[Record]:
    """Predictions that are right with a probability; every seed is wrong on mostly the same rows."""
    gold = np.random.default_rng(99).integers(0, 2, rows)
    hard = np.random.default_rng(98).random(rows)
    found = []
    for seed in range(seeds):
        noise = np.random.default_rng([seed, draw]).normal(0, 0.1, rows)
        predictions = np.where(hard + noise < accuracy, gold, 1 - gold)
        found.append(record(name, seed, gold, predictions, **changes))
    return found
