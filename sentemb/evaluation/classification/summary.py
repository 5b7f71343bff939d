"""Records of a study, put together over seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Point
from sentemb.evaluation.classification.metrics import best_runs
from sentemb.evaluation.classification.records import CellRecord


@dataclass(frozen=True, eq=False)
class Summary:
    """One method on one data set at one point.

    Attributes:
        label: The method; with the settings that differ where one name has several.
        data: The set.
        point: The protocol's point.
        records: One for each seed, by seed.
        mean: Mean score, over all seeds or over the best.
        deviation: Its sample standard deviation, None of a single score.
    """

    label: str
    data: str
    point: Point
    records: tuple[CellRecord, ...]
    mean: float
    deviation: float | None


def summarize(records: Iterable[CellRecord], *, best: int | None = None) -> list[Summary]:
    """Put the records of a study together over seeds.

    Args:
        records: The records.
        best: Report only so many seeds, the best ones on validation rows (SCL: 3 of 10); all by default, and
            all where there are fewer.

    Returns:
        In the order of the records.

    Raises:
        InputError: A method has two records of one seed, which differ in their data.
    """
    records = list(records)
    groups: dict[tuple[str, str, Point], list[CellRecord]] = defaultdict(list)
    for record, label in zip(records, _labels(records), strict=True):
        groups[label, record.cell.data, record.cell.point].append(record)
    return [_summary(*key, runs, best) for key, runs in groups.items()]


def curves(
    summaries: Iterable[Summary],
) -> dict[str, dict[str, tuple[list[float], list[float], list[float]]]]:
    """Scores against the protocol's figure, for drawing.

    Args:
        summaries: The summaries of one protocol; points without a figure are passed over.

    Returns:
        Of each data set and method the figures in ascending order, the means x 100 and their standard
        deviations x 100 (0 of a single score).
    """
    found: dict[str, dict[str, list[tuple[float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in summaries:
        if one.point.value is not None:
            point = (one.point.value, 100 * one.mean, 100 * (one.deviation or 0.0))
            found[one.data][one.label].append(point)
    return {
        data: {label: _columns(sorted(points)) for label, points in methods.items()}
        for data, methods in found.items()
    }


def _columns(points: Sequence[tuple[float, float, float]]) -> tuple[list[float], list[float], list[float]]:
    return [one[0] for one in points], [one[1] for one in points], [one[2] for one in points]


def _summary(label: str, data: str, point: Point, runs: list[CellRecord], best: int | None) -> Summary:
    runs.sort(key=lambda run: run.cell.seed)
    seeds = [run.cell.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        raise InputError(
            f"{label} on {data} at {point} has two records of one seed, made of different data or metrics",
            "keep the studies in two folders",
        )
    scores = [run.score for run in runs]
    if best is None or len(runs) < best:
        return Summary(label, data, point, tuple(runs), fmean(scores), _deviation(scores))
    chosen = best_runs([run.validation_score for run in runs], scores, best=best)
    return Summary(label, data, point, tuple(runs), chosen.mean, chosen.standard_deviation)


def _deviation(scores: Sequence[float]) -> float | None:
    return stdev(scores) if len(scores) > 1 else None


def _labels(records: Sequence[CellRecord]) -> list[str]:
    """What tables call the method of each record: its name, and what sets its variants apart.

    Variants are records of one method with other settings on the same data; the fingerprint of the base is
    one of the settings.
    """
    settings = [_settings(record) for record in records]
    groups: dict[tuple[str, str, Point], list[Mapping[str, str]]] = defaultdict(list)
    for record, one in zip(records, settings, strict=True):
        groups[record.cell.method.name, record.cell.data, record.cell.point].append(one)
    differing: dict[str, set[str]] = defaultdict(set)
    for (name, _, _), found in groups.items():
        keys = {key for one in found for key in one}
        differing[name] |= {key for key in keys if len({one.get(key) for one in found}) > 1}
    return [
        _label(record.cell.method.name, one, sorted(differing[record.cell.method.name]))
        for record, one in zip(records, settings, strict=True)
    ]


def _label(name: str, settings: Mapping[str, str], keys: Sequence[str]) -> str:
    shown = ", ".join(f"{key}={settings.get(key, 'default')}" for key in keys)
    return f"{name} ({shown})" if shown else name


def _settings(record: CellRecord) -> Mapping[str, str]:
    flat = {"recipe": record.cell.method.recipe, **_flat(record.settings)}
    # A digest's beginning tells two apart; the name of one base may be written in two ways.
    if "start_fingerprint" in flat:
        flat["start_fingerprint"] = flat["start_fingerprint"].strip('"')[:8]
        flat.pop("base", None)
    return flat


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat
