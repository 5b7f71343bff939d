"""Records of one model on different data sets as one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.schema import Record


def joined(first: Record | None, second: Record, command: Sequence[str] | None = None) -> Record:
    """One record of the data sets of both, or of the second alone, as this command made it."""
    values, gold = load_predictions(second)
    datasets, scores, details = second.datasets, second.scores, second.details
    seconds = Counter(second.environment.seconds)
    if first is not None:
        earlier = load_predictions(first)
        values, gold = {**earlier.values, **values}, {**earlier.gold, **gold}
        datasets, scores = (*first.datasets, *datasets), (*first.scores, *scores)
        details = _merged(first.details, details)
        seconds.update(first.environment.seconds)
    environment = second.environment.model_copy(
        update={"seconds": dict(seconds), "command": None if command is None else tuple(command)}
    )
    joined = second.model_copy(
        update={"datasets": datasets, "scores": scores, "details": details, "environment": environment}
    )
    return joined.with_predictions(values, gold)


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: {**first[name], **second[name]} for name in first if isinstance(second.get(name), dict)}
    return {**first, **second, **both}
