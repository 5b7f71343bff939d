"""Records of classification trials, made of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sentemb.evaluation.classification import Metric, Task
from sentemb.evaluation.record import DataSet, Environment, Record, Score, Trial


def task(metric: Metric, classes: int = 2) -> Task:
    return Task("toy", metric, False, classes, "")


def record(name: str, seed: int, gold: np.ndarray, predictions: np.ndarray, **changes: Any) -> Record:
    """A record; `changes` name what is not usual about it."""
    metric, data = changes.get("metric", "accuracy"), changes.get("data", "toy")
    classes = max(2, int(gold.max()) + 1)
    names = tuple(f"class-{number}" for number in range(classes))
    scores = task(metric, classes).scores(gold, predictions)
    return Record(
        suite="classification",
        model=name,
        fingerprint="0" * 64,
        protocol="full",
        seed=seed,
        datasets=(
            DataSet(
                name=data,
                split="test",
                items=len(gold),
                sha256=changes.get("sha256", "a" * 64),
                classes=names,
            ),
        ),
        scores=(
            *(Score(dataset=data, metric=one, value=value) for one, value in scores.items()),
            Score(dataset=data, metric=metric, protocol="validation", value=changes.get("validation", 0.5)),
        ),
        trial=Trial(
            experiment=changes.get("experiment", "toy"),
            method=name,
            setting=changes.get("setting", {}),
            options=changes.get("options", {}),
        ),
        environment=Environment(versions={}, hardware={}, date="2026-01-01T00:00:00+00:00"),
        details={
            "metric": metric,
            "sizes": {"train": 10, "validation": 5, "test": len(gold)},
            "class_counts": changes.get("counts", {one: 5 + number for number, one in enumerate(names)}),
            "left_out": changes.get("left_out", {}),
            "minority": changes.get("minority"),
        },
    ).with_predictions({data: predictions}, {data: gold})


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
