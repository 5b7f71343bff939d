"""Records of an experiment, put together over seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.classification import best_runs
from sentemb.evaluation.schema import Record
from sentemb.evaluation.suites import get_suite
from sentemb.experiments.experiment import Setting, default_options

AVERAGE = "average"


@dataclass(frozen=True, eq=False)
class Summary:
    """One method on one data set at one setting.

    Attributes:
        label: The method; with the options that differ where one name has several.
        data: The data set, or `average`.
        setting: What was varied.
        metric: What the data set is evaluated by.
        records: One for each seed, by seed.
        scores: Of all seeds or of the best, in the scale of the suite.
    """

    label: str
    data: str
    setting: Setting
    metric: str
    records: tuple[Record, ...]
    scores: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, Setting]:
        """What tells it from others."""
        return self.label, self.data, self.setting

    @property
    def factor(self) -> float:
        """What makes its scores x 100."""
        return 100 / get_suite(self.records[0].suite).scale

    @property
    def mean(self) -> float:
        """The mean score x 100."""
        return self.factor * fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation x 100; None of a single score."""
        return self.factor * stdev(self.scores) if len(self.scores) > 1 else None


def summarize(
    records: Iterable[Record], *, best: int | None = None, metric: str | None = None
) -> list[Summary]:
    """Put the records of an experiment together over seeds.

    Args:
        records: The records, each with its trial.
        best: Report only so many seeds, the best ones on validation rows (SCL: 3 of 10); all by default, and
            all where there are fewer.
        metric: Another metric than that of the suite or the set.

    Returns:
        In the order of the records; encoders evaluated on several sets have their average too.

    Raises:
        InputError: A method has two records of one seed, which differ in their data.

    Example:
        >>> summaries = summarize(load_records("runs/few-shot"))  # doctest: +SKIP
    """
    records = list(records)
    groups: dict[tuple[str, str, Setting], list[Record]] = defaultdict(list)
    for record, label in zip(records, _labels(records), strict=True):
        averaged = get_suite(record.suite).sets and record.average(metric, _protocol(record)) is not None
        for data in (*(one.name for one in record.datasets), *([AVERAGE] if averaged else [])):
            groups[label, data, setting_of(record)].append(record)
    return [_summary(*key, runs, best, metric) for key, runs in groups.items()]


def setting_of(record: Record) -> Setting:
    """What an experiment varied for a record."""
    varied = {} if record.trial is None else record.trial.setting
    return next((Setting(name, value) for name, value in varied.items()), Setting("full"))


def metric_of(record: Record) -> str:
    """The metric of a record's headline."""
    return str(record.details.get("metric") or get_suite(record.suite).measure)


def score_of(record: Record, data: str, metric: str | None = None) -> float | None:
    """The headline of a data set, None where the record lacks it."""
    metric, protocol = metric or metric_of(record), _protocol(record)
    if data == AVERAGE:
        return record.average(metric, protocol)
    found = record.find(data, metric, protocol)
    return None if found is None else found.value


def curves(
    summaries: Iterable[Summary],
) -> dict[str, dict[str, tuple[list[float], list[float], list[float]]]]:
    """Scores against what an experiment varies, for drawing.

    Args:
        summaries: The summaries of one experiment; those without a value are skipped.

    Returns:
        Of each data set and method the values in ascending order, the means x 100 and their standard
        deviations x 100 (0 of a single score).

    Example:
        >>> curves(summarize(load_records("runs/few-shot")))  # doctest: +SKIP
    """
    found: dict[str, dict[str, dict[float, Summary]]] = defaultdict(lambda: defaultdict(dict))
    for one in summaries:
        if one.setting.value is not None:
            found[one.data][one.label][one.setting.value] = one
    return {
        data: {label: _curve(points) for label, points in methods.items()} for data, methods in found.items()
    }


def _curve(points: Mapping[float, Summary]) -> tuple[list[float], list[float], list[float]]:
    values = sorted(points)
    found = [points[value] for value in values]
    return values, [one.mean for one in found], [one.deviation or 0.0 for one in found]


def _summary(
    label: str, data: str, setting: Setting, runs: list[Record], best: int | None, metric: str | None
) -> Summary:
    runs.sort(key=lambda run: run.seed or 0)
    if len({run.seed for run in runs}) < len(runs):
        raise InputError(
            f"two records of {label} on {data} at {setting} have the same seed but different data or metrics",
            "keep the experiments in separate folders",
        )
    found = [score_of(run, data, metric) for run in runs]
    scores = [score for score in found if score is not None]
    name = metric or metric_of(runs[0])
    if best is not None and len(runs) >= best:
        scores = best_runs([run.score(data, name, "validation") for run in runs], scores, best=best)
    return Summary(label, data, setting, name, tuple(runs), tuple(scores))


def _protocol(record: Record) -> str:
    """The protocol of the headline; records of classifiers have their setting in its place."""
    return record.protocol if record.suite in ("sts", "multilingual") else "all"


def _labels(records: Sequence[Record]) -> list[str]:
    """What tables call the method of each record: its name, and what sets its variants apart.

    Variants are records of one method with other options on the same data; the fingerprint of the base is one
    of the options.
    """
    options = [_options(record) for record in records]
    groups: dict[tuple[str, str, Setting], list[Mapping[str, str]]] = defaultdict(list)
    for record, one in zip(records, options, strict=True):
        groups[_method(record), record.datasets[0].name, setting_of(record)].append(one)
    differing: dict[str, set[str]] = defaultdict(set)
    for (name, _, _), found in groups.items():
        keys = {key for one in found for key in one}
        differing[name] |= {key for key in keys if len({one.get(key) for one in found}) > 1}
    return [
        _label(_method(record), one, sorted(differing[_method(record)]))
        for record, one in zip(records, options, strict=True)
    ]


def _method(record: Record) -> str:
    return record.model if record.trial is None else record.trial.method


def _label(name: str, options: Mapping[str, str], keys: Sequence[str]) -> str:
    shown = ", ".join(f"{key}={options.get(key, 'default')}" for key in keys)
    return f"{name} ({shown})" if shown else name


def _options(record: Record) -> Mapping[str, str]:
    flat = _flat({} if record.trial is None else {**default_options(record.suite), **record.trial.options})
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
