"""Tables of an experiment: methods by data sets, mean and spread, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from sentemb._files import write_text
from sentemb.errors import InputError
from sentemb.evaluation.measures import confusion, f1_of_classes
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.schema import Record
from sentemb.experiments.experiment import Experiment, Setting
from sentemb.experiments.multitask_tables import multitask_tables
from sentemb.experiments.notes import table_notes
from sentemb.experiments.summary import Summary, score_of, summarize
from sentemb.experiments.verdicts import Key, Verdict, verdicts_of
from sentemb.report.labels import best_cells
from sentemb.report.table import ABSENT, Table, mean_cell

METRIC_NAMES: Mapping[str, str] = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro-F1",
    "matthews": "Matthews",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
_VARIED = {
    "train": "training rows",
    "shots": "examples",
    "per-class": "examples per class",
    "rho": "ρ",
    "noise": "temperature",
}


def experiment_tables(experiment: Experiment, records: Sequence[Record]) -> list[Table]:
    """What an experiment reports.

    Args:
        experiment: The experiment.
        records: Records of any experiments.

    Returns:
        The scores; the comparisons where there are any; further tables that the experiment asks for.

    Raises:
        InputError: There is no record of the experiment, or there are two of one run.

    Example:
        >>> tables = experiment_tables(load_experiment("few-shot"), load_records("runs"))  # doctest: +SKIP
    """
    own = [one for one in records if one.trial is not None and one.trial.experiment == experiment.name]
    if not own:
        raise InputError(f"no record of the experiment {experiment.name} found", "run it without --no-run")
    own.sort(key=lambda one: one.environment.date)
    if experiment.kind == "multitask":
        return multitask_tables(own)
    summaries = summarize(own, best=experiment.best)
    verdicts = verdicts_of(summaries, experiment.baseline)
    tables = [results_table(experiment, summaries, verdicts)]
    for metric in experiment.tables:
        if metric in METRIC_NAMES:
            tables.append(results_table(experiment, summarize(own, metric=metric), {}))
    if any(one.difference is not None for one in verdicts.values()):
        tables.append(comparison_table(summaries, verdicts, str(experiment.baseline)))
    if "classes" in experiment.tables:
        tables.append(class_table(summaries))
    if "average" in experiment.tables:
        tables.append(average_table(summaries))
    return tables


def write_tables(experiment: Experiment, folder: Path) -> Path:
    """Make the tables of an experiment again, of all its records in a folder: NAME.md and NAME.tex.

    Example:
        >>> write_tables(load_experiment("few-shot"), Path("runs/few-shot"))  # doctest: +SKIP
    """
    tables = experiment_tables(experiment, load_records([folder]))
    path = folder / f"{experiment.name}.md"
    write_text(path, "\n".join(table.markdown() for table in tables))
    write_text(path.with_suffix(".tex"), "\n".join(table.latex() for table in tables))
    return path


def results_table(
    experiment: Experiment, summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict]
) -> Table:
    """Methods by data sets: mean ± standard deviation x 100, the best of each column in bold."""
    cells = {one.key: one for one in summaries}
    sets = list(dict.fromkeys(one.data for one in summaries))
    settings = sorted({one.setting for one in summaries}, key=lambda one: (one.name, one.value or 0.0))
    labels = sorted(
        dict.fromkeys(one.label for one in summaries), key=lambda label: label != experiment.baseline
    )
    lines = [(label, setting) for setting in settings for label in labels]
    lines = [line for line in lines if any((line[0], data, line[1]) in cells for data in sets)]
    # Of encoders the table says how many seeds a row has, and what the papers report.
    encoders = experiment.kind != "classification"
    decimals = 2 if encoders else 1
    beside = {one.name: one.published for one in experiment.chosen if one.published is not None}
    before = [*([varied(settings[0])] if len(settings) > 1 else []), *(["seeds"] if encoders else [])]
    rows = []
    for label, setting in lines:
        found = [cells.get((label, data, setting)) for data in sets]
        names = [
            label,
            *([_value(setting)] if len(settings) > 1 else []),
            *([_seeds(next(filter(None, found)))] if encoders else []),
        ]
        published = [beside.get(label, ABSENT)] if beside else []
        rows.append((*names, *(_cell(one, verdicts, decimals) for one in found), *published))
    metrics = {one.data: METRIC_NAMES.get(one.metric, one.metric) for one in summaries}
    shared = f", {next(iter(metrics.values()))} x 100" if encoders else ""
    best: set[tuple[int, int]] = set()
    for setting in settings:
        for column in range(1 + len(before), 1 + len(before) + len(sets)):
            compared = [
                row for row, line in enumerate(lines) if line[1] == setting and rows[row][column] != ABSENT
            ]
            best.update(best_cells(rows, compared, column) if len(compared) > 1 else ())
    return Table(
        title=f"{experiment.title}{shared}",
        header=(
            "method",
            *before,
            *(data if encoders else f"{data} {metrics[data]}" for data in sets),
            *(["published"] if beside else []),
        ),
        rows=tuple(rows),
        notes=tuple(table_notes(summaries, verdicts, experiment)),
        best=frozenset(best),
    )


def comparison_table(summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str) -> Table:
    """Every comparison with the baseline and its p-values."""
    cells = {one.key: one for one in summaries}
    rows = [
        (
            one.label,
            one.data,
            str(one.setting),
            str(verdict.seeds),
            f"{_difference(one, cells[baseline, one.data, one.setting]):+.1f}",
            f"{found.p_items:.4f}",
            *(ABSENT if p is None else f"{p:.4f}" for p in (found.p_seeds, verdict.p)),
        )
        for one in summaries
        if (verdict := verdicts.get(one.key)) is not None and (found := verdict.difference) is not None
    ]
    return Table(
        title=f"Differences from {baseline}, x 100",
        header=("method", "set", "point", "seeds", "difference", "p over rows", "p over seeds", "p, Holm"),
        rows=tuple(rows),
        notes=("p, Holm: the larger of both p-values, Holm-corrected over the methods of a set and point",),
    )


def _difference(one: Summary, baseline: Summary) -> float:
    """Mean x 100 of the differences of the seeds that both have."""
    ours, theirs = (
        {run.seed: score_of(run, one.data, one.metric) or 0.0 for run in side.records}
        for side in (one, baseline)
    )
    return one.factor * float(
        np.mean([score - theirs[seed] for seed, score in ours.items() if seed in theirs])
    )


def class_table(summaries: Sequence[Summary]) -> Table:
    """F1 x 100 of the rarest and of the other classes, mean over seeds (LaCon, table 5)."""
    rows = []
    for one in summaries:
        names = one.records[0].datasets[0].classes
        rare = names.index(_minority(one.records[0]))
        scores = [_f1_of_classes(run) for run in one.records]
        minor = fmean(each[rare] for each in scores)
        major = fmean(fmean(each[:rare] + each[rare + 1 :]) for each in scores)
        rows.append((one.label, one.data, str(one.setting), f"{100 * minor:.1f}", f"{100 * major:.1f}"))
    return Table(
        title="F1 x 100 of the minority and of the majority classes, mean over seeds",
        header=("method", "set", "point", "minority", "majority"),
        rows=tuple(rows),
    )


def average_table(summaries: Sequence[Summary]) -> Table:
    """Methods and sets by values, with the average over the values that change something (SCL, table 5)."""
    settings = sorted({one.setting for one in summaries}, key=lambda one: one.value or 0.0)
    means = {one.key: one.mean for one in summaries}
    rows = []
    for label, data in dict.fromkeys((one.label, one.data) for one in summaries):
        found = {setting: means.get((label, data, setting)) for setting in settings}
        changed = [mean for setting, mean in found.items() if setting.value]
        whole = [mean for mean in changed if mean is not None]
        average = f"{fmean(whole):.1f}" if whole and len(whole) == len(changed) else ABSENT
        cells = [ABSENT if mean is None else f"{mean:.1f}" for mean in found.values()]
        rows.append((label, data, *cells, average))
    name = varied(settings[0])
    return Table(
        title=f"Mean x 100 by {name}, and the average excluding {name} 0",
        header=("method", "set", *map(_value, settings), "average"),
        rows=tuple(rows),
    )


def varied(setting: Setting) -> str:
    """What the values of a setting count."""
    return _VARIED.get(setting.name, setting.name)


def _minority(record: Record) -> str:
    counts = record.details["class_counts"]
    return str(record.details["minority"] or min(counts, key=lambda name: counts[name]))


def _f1_of_classes(record: Record) -> list[float]:
    data, found = record.datasets[0], load_predictions(record)
    counts = confusion(found.values[data.name], found.gold[data.name], len(data.classes))
    return [float(value) for value in f1_of_classes(counts)]


def _cell(summary: Summary | None, verdicts: Mapping[Key, Verdict], decimals: int) -> str:
    if summary is None:
        return ABSENT
    verdict = verdicts.get(summary.key)
    return mean_cell(summary.scores, decimals, scale=summary.factor) + (verdict.marker if verdict else "")


def _seeds(summary: Summary) -> str:
    return ABSENT if summary.records[0].seed is None else str(len(summary.records))


def _value(setting: Setting) -> str:
    return setting.name if setting.value is None else f"{setting.value:g}"
