"""Records made of numbers, for tests of what is done with records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sentemb.evaluation.schema import DataSet, Environment, Record, Score
from sentemb.evaluation.suites import get_suite

ENVIRONMENT = Environment(versions={}, hardware={}, date="2026-01-01T00:00:00+00:00")


def data_set(name: str, items: int = 1, *, split: str = "test", content: str = "", **fields: Any) -> DataSet:
    """A data set; its checksum follows from its name and `content`."""
    digest = hashlib.sha256((name + content).encode()).hexdigest()
    return DataSet(name=name, split=split, items=items, sha256=digest, **fields)


def make_record(
    suite: str,
    model: str,
    datasets: Sequence[DataSet],
    scores: Iterable[Score | tuple[str, str, float]],
    **fields: Any,
) -> Record:
    """A record with scores of (data set, metric, value); `fields` name what is not usual about it."""
    given = {
        "fingerprint": hashlib.sha256(model.encode()).hexdigest(),
        "protocol": get_suite(suite).protocol,
        "environment": ENVIRONMENT,
    }
    return Record(
        suite=suite,
        model=model,
        datasets=tuple(datasets),
        scores=tuple(
            one if isinstance(one, Score) else Score(dataset=one[0], metric=one[1], value=one[2])
            for one in scores
        ),
        **(given | fields),
    )
