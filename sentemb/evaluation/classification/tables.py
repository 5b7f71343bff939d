"""Tables of a study: methods by data sets, mean and spread, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from sentemb.evaluation.classification.cell import Point
from sentemb.evaluation.classification.metrics import Metric, f1_per_class
from sentemb.evaluation.classification.notes import study_notes
from sentemb.evaluation.classification.records import CellRecord
from sentemb.evaluation.classification.summary import Summary
from sentemb.evaluation.classification.verdicts import Key, Verdict
from sentemb.evaluation.table import ABSENT, Table

METRIC_NAMES: Mapping[Metric, str] = {
    "accuracy": "accuracy",
    "f1": "F1",
    "macro_f1": "macro-F1",
    "matthews": "Matthews",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
_FIGURES = {
    "train": "training rows",
    "shots": "examples",
    "per-class": "examples per class",
    "rho": "ρ",
    "noise": "temperature",
    "classes": "classes",
}


def study_table(
    summaries: Sequence[Summary],
    verdicts: Mapping[Key, Verdict],
    *,
    baseline: str,
    title: str,
    best: int | None = None,
) -> Table:
    """Methods by data sets: mean ± standard deviation x 100, the best of each column in bold.

    Args:
        summaries: The summaries; a protocol with several points has a row for each.
        verdicts: From `judge`.
        baseline: Label of the baseline, the first row.
        title: What the table shows.
        best: How many seeds `summarize` reported, None for all.

    Returns:
        The table; what was not run is a dash.
    """
    cells = {_key(one): one for one in summaries}
    sets = list(dict.fromkeys(one.data for one in summaries))
    points = sorted({one.point for one in summaries}, key=lambda point: (point.protocol, point.value or 0.0))
    labels = sorted(dict.fromkeys(one.label for one in summaries), key=lambda label: label != baseline)
    several = len(points) > 1
    lines = [(label, point) for point in points for label in labels]
    lines = [line for line in lines if any((line[0], data, line[1]) in cells for data in sets)]
    rows = []
    for label, point in lines:
        found = [cells.get((label, data, point)) for data in sets]
        scores = [_cell(one, verdicts) for one in found]
        rows.append((label, *([_figure(point)] if several else []), *scores))
    column = 2 if several else 1
    return Table(
        title=title,
        header=(
            "method",
            *([figure_name(points[0])] if several else []),
            *(f"{data} {METRIC_NAMES[_metric(data, summaries)]}" for data in sets),
        ),
        rows=tuple(rows),
        notes=tuple(study_notes(summaries, verdicts, baseline=baseline, best=best)),
        best=frozenset(
            (number, column + index)
            for point in points
            for index, data in enumerate(sets)
            for number in _best_rows(lines, cells, data, point)
        ),
    )


def comparison_table(summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str) -> Table:
    """Every comparison with the baseline and its p-values.

    Args:
        summaries: The summaries, for the order.
        verdicts: From `judge`.
        baseline: Label of the baseline.

    Returns:
        The table.
    """
    rows = []
    for one in summaries:
        verdict = verdicts.get(_key(one))
        if verdict is None or verdict.comparison is None:
            continue
        found = verdict.comparison
        rows.append(
            (
                one.label,
                one.data,
                str(one.point),
                str(found.seeds),
                f"{100 * found.difference:+.1f}",
                f"{found.p_rows:.4f}",
                ABSENT if found.p_seeds is None else f"{found.p_seeds:.4f}",
                ABSENT if verdict.p is None else f"{verdict.p:.4f}",
            )
        )
    return Table(
        title=f"Differences from {baseline}, x 100",
        header=("method", "set", "point", "seeds", "difference", "p over rows", "p over seeds", "p, Holm"),
        rows=tuple(rows),
        notes=("p, Holm: of the larger of the two, corrected over the methods of a set and point",),
    )


def class_table(summaries: Sequence[Summary]) -> Table:
    """F1 x 100 of the rarest and of the other classes, mean over seeds (LaCon, table 5).

    Args:
        summaries: The summaries of sets with classes.

    Returns:
        The table; the rarest is the class that was made rare, else that with the fewest training rows.
    """
    rows = []
    for one in summaries:
        names = one.records[0].label_names
        rare = names.index(_minority(one.records[0]))
        scores = [f1_per_class(run.gold, run.predictions, classes=len(names)) for run in one.records]
        minor = fmean(each[rare] for each in scores)
        major = fmean(fmean(each[:rare] + each[rare + 1 :]) for each in scores)
        rows.append((one.label, one.data, str(one.point), f"{100 * minor:.1f}", f"{100 * major:.1f}"))
    return Table(
        title="F1 x 100 of the minority and of the majority, mean over seeds",
        header=("method", "set", "point", "minority", "majority"),
        rows=tuple(rows),
    )


def average_table(summaries: Sequence[Summary]) -> Table:
    """Methods and sets by points, with the average over the points that change something (SCL, table 5)."""
    points = sorted({one.point for one in summaries}, key=lambda point: point.value or 0.0)
    means = {_key(one): 100 * one.mean for one in summaries}
    rows = []
    for label, data in dict.fromkeys((one.label, one.data) for one in summaries):
        found = {point: means.get((label, data, point)) for point in points}
        changed = [mean for point, mean in found.items() if point.value]
        whole = [mean for mean in changed if mean is not None]
        average = f"{fmean(whole):.1f}" if whole and len(whole) == len(changed) else ABSENT
        cells = [ABSENT if mean is None else f"{mean:.1f}" for mean in found.values()]
        rows.append((label, data, *cells, average))
    name = figure_name(points[0])
    return Table(
        title=f"Mean x 100 by {name}, and the average without {name} 0",
        header=("method", "set", *(_figure(point) for point in points), "average"),
        rows=tuple(rows),
    )


def figure_name(point: Point) -> str:
    """What the figure of a protocol counts."""
    return _FIGURES.get(point.protocol, point.protocol)


def _minority(record: CellRecord) -> str:
    return record.minority or min(record.class_counts, key=lambda name: record.class_counts[name])


def _key(summary: Summary) -> Key:
    return summary.label, summary.data, summary.point


def _cell(summary: Summary | None, verdicts: Mapping[Key, Verdict]) -> str:
    if summary is None:
        return ABSENT
    deviation = "" if summary.deviation is None else f" ± {100 * summary.deviation:.1f}"
    verdict = verdicts.get(_key(summary))
    return f"{100 * summary.mean:.1f}{deviation}{verdict.marker if verdict else ''}"


def _figure(point: Point) -> str:
    return point.protocol if point.value is None else f"{point.value:g}"


def _best_rows(
    lines: Sequence[tuple[str, Point]], cells: Mapping[Key, Summary], data: str, point: Point
) -> list[int]:
    """The rows of the best mean, as it is printed; none where there is nothing to compare."""
    means = {
        number: f"{100 * cells[label, data, point].mean:.1f}"
        for number, (label, at) in enumerate(lines)
        if at == point and (label, data, point) in cells
    }
    if len(means) < 2:
        return []
    highest = max(means.values(), key=float)
    return [number for number, mean in means.items() if mean == highest]


def _metric(data: str, summaries: Sequence[Summary]) -> Metric:
    return next(one.records[0].cell.metric for one in summaries if one.data == data)
