"""Records as one long table, a row for each score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sentemb.evaluation.naming import without_seed
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import get_suite

if TYPE_CHECKING:
    import pandas as pd

_SOURCE = ("suite", "model", "method", "base", "seed", "experiment", "setting", "dataset", "split")
COLUMNS = (*_SOURCE, *"metric protocol value low high items preset fingerprint".split())


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return records as a long table, to pivot into any table or figure.

    Args:
        records: The records.

    Returns: A row for each score, with `COLUMNS`: `method` is the model's name without `-seed-N`; `seed`,
    `items` and `base` may be missing values; `setting` is written as `name=value, …`; `value`, `low` and
    `high` are
        x 100, except for geometry; `preset` is the record's protocol (of transfer tasks the preset of the
        classifiers), `protocol` that of the score.

    Example:
        >>> frame = to_frame(load_records("records"))
        >>> list(frame.columns)[:3]
        ['suite', 'model', 'method']
    """
    import pandas as pd

    frame = pd.DataFrame([row for record in records for row in _rows(record)], columns=list(COLUMNS))
    return frame.astype({"seed": "Int64", "items": "Int64", "low": "float64", "high": "float64"})


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return a trial's setting as one cell of a table."""
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in setting.items()
    )


def _rows(record: Record) -> Iterable[dict[str, Any]]:
    trial, sets = record.trial, {one.name: one for one in record.datasets}
    factor = 100 / get_suite(record.suite).scale
    for score in record.scores:
        dataset = sets.get(score.dataset)
        yield {
            "suite": record.suite,
            "model": record.model,
            "method": without_seed(record.model),
            "base": record.base,
            "seed": record.seed,
            "experiment": trial.experiment if trial else "",
            "setting": setting_text(trial.setting) if trial else "",
            "dataset": score.dataset,
            "split": dataset.split if dataset else "",
            "metric": score.metric,
            "protocol": score.protocol,
            "value": factor * score.value,
            "low": None if score.low is None else factor * score.low,
            "high": None if score.high is None else factor * score.high,
            "items": dataset.items if dataset else None,
            "preset": record.protocol,
            "fingerprint": record.fingerprint,
        }
