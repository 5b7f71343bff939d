"""Records of an experiment summarized over seeds, and compared with the baseline."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from sentemb.errors import InputError
from sentemb.evaluation.classification import best_runs
from sentemb.evaluation.comparison import Difference, compare
from sentemb.evaluation.schema import Record
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.systems import method_of, system_of
from sentemb.experiments.experiment import Setting, default_options

AVERAGE = "average"

Key = tuple[str, str, Setting]
"""Label, data set and setting."""


@dataclass(frozen=True, eq=False)
class Summary:
    """One method on one data set at one setting.

    Attributes:
        label: The method, with the differing options if records of one name have several.
        data: The data set, or `average`.
        setting: The setting.
        metric: The metric of the data set.
        records: One record for each seed, by seed.
        scores: Scores of all seeds or of the best, in the scale of the suite.
    """

    label: str
    data: str
    setting: Setting
    metric: str
    records: tuple[Record, ...]
    scores: tuple[float, ...]

    @property
    def key(self) -> Key:
        """Identity of the summary among others."""
        return self.label, self.data, self.setting

    @property
    def factor(self) -> float:
        """Factor from the scale of the suite to x 100."""
        return 100 / get_suite(self.records[0].suite).scale

    @property
    def mean(self) -> float:
        """Mean score x 100."""
        return self.factor * fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation x 100; None for a single score."""
        return self.factor * stdev(self.scores) if len(self.scores) > 1 else None


class Verdict(NamedTuple):
    """A method compared with the baseline, among the other methods of its column."""

    difference: Difference | None  # None if the two cannot be compared
    seeds: int
    p: float | None  # Holm-corrected; None for a single seed

    @property
    def marker(self) -> str:
        """Arrow if the difference is significant."""
        if self.difference is None or self.p is None or self.p >= LEVEL:
            return ""
        return " ↑" if self.difference.size > 0 else " ↓"


def summarize(
    records: Iterable[Record], *, best: int | None = None, metric: str | None = None
) -> list[Summary]:
    """Summarize the records of an experiment over seeds.

    Args:
        records: The records, each with its trial.
        best: Number of seeds to report, the best on validation rows (SCL: 3 of 10); all by default, and
            all if there are fewer.
        metric: Metric; that of the suite or the set by default.

    Returns:
        Summaries in the order of the records. Encoders evaluated on all sets of a suite also have an average.

    Raises:
        InputError: A method has two records of one seed, which differ in their data.

    Example:
        >>> summaries = summarize(load_records("runs/few-shot"))  # doctest: +SKIP
    """
    records = list(records)
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record, label in zip(records, _labels(records), strict=True):
        averaged = get_suite(record.suite).sets and score_of(record, AVERAGE, metric) is not None
        for data in (*(one.name for one in record.datasets), *([AVERAGE] if averaged else [])):
            groups[label, data, _setting_of(record)].append(record)
    return [_summary(*key, runs, best, metric) for key, runs in groups.items()]


def curves(
    summaries: Iterable[Summary],
) -> dict[str, dict[str, tuple[list[float], list[float], list[float]]]]:
    """Return scores over the values of an experiment, for figures.

    Args:
        summaries: Summaries of one experiment. Summaries without a value are skipped.

    Returns:
        For each data set and method the values in ascending order, the means x 100 and their standard
        deviations x 100 (0 for a single score).

    Example:
        >>> curves(summarize(load_records("runs/few-shot")))  # doctest: +SKIP
    """
    found: dict[str, dict[str, list[tuple[float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in summaries:
        if one.setting.value is not None:
            found[one.data][one.label].append((one.setting.value, one.mean, one.deviation or 0.0))
    return {
        data: {
            label: ([x for x, _, _ in points], [y for _, y, _ in points], [sd for _, _, sd in points])
            for label, points in ((label, sorted(some)) for label, some in methods.items())
        }
        for data, methods in found.items()
    }


def score_of(record: Record, data: str, metric: str | None = None) -> float | None:
    """Return the headline of a data set, None if the record does not have it."""
    # Records of classifiers have their setting as protocol.
    protocol = record.protocol if record.suite in ("sts", "multilingual") else "all"
    metric = metric or metric_of(record)
    if data == AVERAGE:
        return record.average(metric, protocol)
    found = record.find(data, metric, protocol)
    return None if found is None else found.value


def verdicts_of(summaries: Sequence[Summary], baseline: str | None) -> dict[Key, Verdict]:
    """Compare every method with the baseline, over the seeds that both have.

    The baseline, and points without it, do not have verdicts.
    """
    verdicts: dict[Key, Verdict] = {}
    compared: dict[tuple[str, int, int], tuple[Mapping[str, Difference], int]] = {}
    for base in summaries:
        if base.label != baseline:
            continue
        column: dict[Key, tuple[Difference | None, int]] = {}
        for one in summaries:
            if one.key[1:] != base.key[1:] or one.label == baseline:
                continue
            place = (one.label, id(one.records[0]), id(base.records[0]))  # all sets of an encoder at once
            if place not in compared:
                compared[place] = _differences(base.records, one.records)
            found, seeds = compared[place]
            column[one.key] = found.get(one.data), seeds
        raw = {
            key: max(one.p_items, one.p_seeds)
            for key, (one, _) in column.items()
            if one is not None and one.p_seeds is not None
        }
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
        verdicts |= {key: Verdict(one, seeds, corrected.get(key)) for key, (one, seeds) in column.items()}
    return verdicts


def options_of(record: Record) -> Mapping[str, Any]:
    """Return the options of a record's trial."""
    return {} if record.trial is None else record.trial.options


def _differences(
    baseline: Sequence[Record], records: Sequence[Record]
) -> tuple[Mapping[str, Difference], int]:
    """Return the differences by data set, including `average`, and the number of common seeds."""
    common = {one.seed for one in baseline} & {one.seed for one in records}
    if not common:
        return {}, 0
    sides = [[one for one in side if one.seed in common] for side in (baseline, records)]
    systems = [system_of(side, method_of(side[0]), measure=metric_of(side[0])) for side in sides]
    try:
        found = compare(*systems, intervals=False)
    except InputError:  # evaluated on other items
        return {}, len(common)
    average = {} if found.average is None else {AVERAGE: found.average}
    return {one.name: one for one in found.sets} | average, len(common)


def _summary(
    label: str, data: str, setting: Setting, runs: list[Record], best: int | None, metric: str | None
) -> Summary:
    runs.sort(key=lambda run: run.seed or 0)
    if len({run.seed for run in runs}) < len(runs):
        where = f"{label} on {data} at {setting}"
        raise InputError(
            f"two records of {where} have the same seed but different data or metrics",
            "keep the experiments in separate folders",
        )
    found = [score_of(run, data, metric) for run in runs]
    scores = [score for score in found if score is not None]
    name = metric or metric_of(runs[0])
    if best is not None and len(runs) >= best:
        scores = best_runs([run.score(data, name, "validation") for run in runs], scores, best=best)
    return Summary(label, data, setting, name, tuple(runs), tuple(scores))


def _setting_of(record: Record) -> Setting:
    varied = {} if record.trial is None else record.trial.setting
    return next((Setting(name, value) for name, value in varied.items()), Setting("full"))


def metric_of(record: Record) -> str:
    """Return the metric of a record's headline."""
    return str(record.details.get("metric") or get_suite(record.suite).measure)


def _labels(records: Sequence[Record]) -> list[str]:
    """Return the label of each record: its method, and the options that differ between its variants.

    Variants are records of one method with other options on the same data.
    """
    names = [record.model if record.trial is None else record.trial.method for record in records]
    options = [_flat_options(record) for record in records]
    groups: dict[Key, list[Mapping[str, str]]] = defaultdict(list)
    for name, record, one in zip(names, records, options, strict=True):
        groups[name, record.datasets[0].name, _setting_of(record)].append(one)
    differing: dict[str, set[str]] = defaultdict(set)
    for (name, _, _), found in groups.items():
        keys = {key for one in found for key in one}
        differing[name] |= {key for key in keys if len({one.get(key) for one in found}) > 1}
    labels = []
    for name, one in zip(names, options, strict=True):
        shown = ", ".join(f"{key}={one.get(key, 'default')}" for key in sorted(differing[name]))
        labels.append(f"{name} ({shown})" if shown else name)
    return labels


def _flat_options(record: Record) -> dict[str, str]:
    """Return the options of a trial with defaults, those of tables as TABLE.NAME."""
    if record.trial is None:
        return {}
    flat = _flat({**default_options(record.suite), **record.trial.options})
    if "start_fingerprint" in flat:
        # The base may be written in two ways, and the beginning of its digest suffices.
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
