"""Whether the scores of a record are what its predictions give."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sentemb.errors import InputError
from sentemb.evaluation.measures import METRICS, PROTOCOLS, measure
from sentemb.evaluation.packing import PEARSON_WITHIN
from sentemb.evaluation.retrieval.metrics import query_scores
from sentemb.evaluation.schema import Array, Predictions, Record, Score
from sentemb.evaluation.suites import MULTILINGUAL, RETRIEVAL, STS, TRANSFER, get_suite

_HINT = "delete the file and evaluate the model again"


def check_scores(record: Record, path: Path, predictions: Predictions) -> None:
    """Every score that predictions decide must be what they give."""
    suite = get_suite(record.suite)
    protocols = {"protocol": record.protocol}
    protocols |= {f"scores[{index}].protocol": one.protocol for index, one in enumerate(record.scores)}
    for field, protocol in protocols.items() if suite in (STS, MULTILINGUAL) else ():
        if protocol not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise InputError(f"{path}, field {field}: {protocol!r} is not one of {known}", _HINT)
    for index, score in enumerate(record.scores):
        values, gold = predictions.values.get(score.dataset), predictions.gold.get(score.dataset)
        if score.metric not in METRICS or score.protocol not in PROTOCOLS or values is None or gold is None:
            continue
        if suite is RETRIEVAL:
            # What is kept are the ranks of judged documents; the items are queries.
            values = gold = query_scores(score.metric, values, gold)
        dataset = record.dataset(score.dataset)
        if len(values) != dataset.items or len(gold) != dataset.items:
            raise InputError(
                f"{path}, field datasets, {dataset.name}: {dataset.items} items, but there are "
                f"{len(values)} predictions and {len(gold)} gold values",
                _HINT,
            )
        scale = 1.0 if score.metric == "mse" else suite.scale
        exact = scale * measure(
            score.metric,
            values,
            gold,
            protocol=score.protocol,
            subsets=dataset.subsets,
            classes=len(dataset.classes),
        )
        exact = 0.0 if np.isnan(exact) else exact  # without correlation, since all predictions are equal
        close = abs(score.value - exact) <= _tolerance(score.metric, exact, scale, suite.rounding)
        if not close and not _is_mean_of_folds(record, score, values, gold):
            raise InputError(
                f"{path}, field scores[{index}].value: {score.value} does not match the "
                f"{score.metric} of the predictions for {score.dataset}, {exact:.6g}",
                _HINT,
            )


def _is_mean_of_folds(record: Record, score: Score, values: Array, gold: Array) -> bool:
    """Whether an accuracy is the mean over folds of different sizes that some transfer tasks report."""
    if record.suite != TRANSFER.name or score.metric != "accuracy":
        return False
    from sentemb.evaluation.transfer.scores import accuracy_of_folds

    return score.value == accuracy_of_folds(score.dataset, record.protocol, gold, values)


def _tolerance(metric: str, value: float, scale: float, rounding: int | None) -> float:
    rounded = 0.0 if rounding is None else 10.0**-rounding
    if metric == "mse":
        return rounded + 1e-3 * abs(value)
    return rounded + scale * (PEARSON_WITHIN if metric == "pearson" else 1e-9)
