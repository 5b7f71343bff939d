"""Tables and figures of an experiment: methods by data sets, compared with the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from sentemb._files import write_bytes, write_text
from sentemb.errors import InputError
from sentemb.evaluation.measures import confusion, f1_of_classes
from sentemb.evaluation.naming import slug
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.schema import Record
from sentemb.evaluation.significance import LEVEL
from sentemb.experiments.experiment import Experiment, Setting
from sentemb.experiments.multitask_tables import multitask_tables
from sentemb.experiments.summary import (
    Key,
    Summary,
    Verdict,
    curves,
    options_of,
    score_of,
    summarize,
    verdicts_of,
)
from sentemb.report.labels import best_cells
from sentemb.report.table import ABSENT, Table, mean_cell, pivot

if TYPE_CHECKING:
    import pandas as pd

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
# Settings that are the same for all methods of a fair comparison, with their names in notes.
_SHARED: Mapping[str, str] = {
    "base": "base",
    "epochs": "epochs",
    "max_steps": "maximum steps",
    "batch_size": "batch size",
    "learning_rate": "learning rate",
    "schedule": "schedule",
    "warmup": "warm-up",
    "weight_decay": "weight decay",
    "max_length": "maximum tokens",
}
_PUBLISHED = "published"


def experiment_tables(experiment: Experiment, records: Sequence[Record]) -> list[Table]:
    """Make the tables of an experiment.

    Args:
        experiment: The experiment.
        records: Records of any experiments.

    Returns:
        The scores; the comparisons, if there are any; and the further tables of the experiment.

    Raises:
        InputError: There is no record of the experiment, or there are two of one run.

    Example:
        >>> tables = experiment_tables(load_experiment("few-shot"), load_records("runs"))  # doctest: +SKIP
    """
    own = _own(experiment, records)
    if not own:
        raise InputError(f"no record of the experiment {experiment.name} found", "run it without --no-run")
    own.sort(key=lambda one: one.environment.date)
    if experiment.kind == "multitask":
        return multitask_tables(own)
    summaries = summarize(own, best=experiment.best)
    verdicts = verdicts_of(summaries, experiment.baseline)
    tables = [_results(experiment, summaries, verdicts)]
    for metric in experiment.tables:
        if metric in METRIC_NAMES:
            tables.append(_results(experiment, summarize(own, metric=metric), {}))
    if any(one.difference is not None for one in verdicts.values()):
        tables.append(comparison_table(summaries, verdicts, str(experiment.baseline)))
    if "classes" in experiment.tables:
        tables.append(class_table(summaries))
    if "average" in experiment.tables:
        tables.append(average_table(summaries))
    return tables


def write_tables(experiment: Experiment, folder: Path) -> Path:
    """Write the tables of an experiment from all its records in a folder: NAME.md and NAME.tex.

    Example:
        >>> write_tables(load_experiment("few-shot"), Path("runs/few-shot"))  # doctest: +SKIP
    """
    tables = experiment_tables(experiment, load_records([folder]))
    path = folder / f"{experiment.name}.md"
    write_text(path, "\n".join(table.markdown() for table in tables))
    write_text(path.with_suffix(".tex"), "\n".join(table.latex() for table in tables))
    return path


def draw_curves(experiment: Experiment, folder: Path) -> Iterator[Path]:
    """Draw the scores of an experiment over its values, a PNG for each data set."""
    from sentemb.report.figures import band_figure, png_of

    summaries = summarize(_own(experiment, load_records([folder])), best=experiment.best)
    metrics = {one.data: METRIC_NAMES[one.metric] for one in summaries}
    names = [varied(one.setting) for one in summaries if one.setting.value is not None]
    for data, lines in curves(summaries).items():
        figure = band_figure(lines, x_label=names[0], y_label=f"{data}, {metrics[data]} x 100")
        path = folder / f"{experiment.name}.{slug(data)}.png"
        write_bytes(path, png_of(figure))
        yield path


def _own(experiment: Experiment, records: Iterable[Record]) -> list[Record]:
    return [one for one in records if one.trial is not None and one.trial.experiment == experiment.name]


def _results(experiment: Experiment, summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict]) -> Table:
    """Tabulate methods by data sets: mean ± standard deviation x 100, the best of each column in bold."""
    import pandas as pd

    # Tables of encoders have the number of seeds and the published result of each row.
    encoders = experiment.kind != "classification"
    published = {one.name: one.published for one in experiment.chosen if one.published is not None}
    metrics = {one.data: METRIC_NAMES.get(one.metric, one.metric) for one in summaries}
    settings = sorted({one.setting for one in summaries}, key=lambda one: (one.name, one.value or 0.0))
    labels = sorted({one.label: one for one in summaries}, key=lambda label: label != experiment.baseline)
    cells = []
    for one in summaries:
        marker = verdicts[one.key].marker if one.key in verdicts else ""
        cells.append((one, one.data, mean_cell(one.scores, 2 if encoders else 1, scale=one.factor) + marker))
        cells.append((one, _PUBLISHED, published.get(one.label, ABSENT)))
    counts = {(one.label, one.setting): _seeds(one) for one in reversed(summaries)}
    frame = pd.DataFrame(
        {
            "place": [(settings.index(one.setting), labels.index(one.label)) for one, _, _ in cells],
            "label": [one.label for one, _, _ in cells],
            "point": [_value(one.setting) for one, _, _ in cells],
            "seeds": [counts[one.label, one.setting] for one, _, _ in cells],
            "data": [data for _, data, _ in cells],
            "text": [text for _, _, text in cells],
        }
    )
    rows = {"label": "method"} | ({"point": varied(settings[0])} if len(settings) > 1 else {})
    rows |= {"seeds": "seeds"} if encoders else {}
    order = {data: data if encoders else f"{data} {metric}" for data, metric in metrics.items()}
    table = pivot(
        frame.sort_values("place", kind="stable"),
        title=experiment.title + (f", {next(iter(metrics.values()))} x 100" if encoders else ""),
        rows=rows,
        column="data",
        order=order | ({_PUBLISHED: _PUBLISHED} if published else {}),
        cell=_text,
        complete=False,
        notes=tuple(_notes(experiment, summaries, verdicts)),
    )
    best: set[tuple[int, int]] = set()
    for point in {row[1] for row in table.rows} if len(settings) > 1 else {None}:
        for column in range(len(rows), len(rows) + len(order)):
            compared = [
                number
                for number, row in enumerate(table.rows)
                if point in (None, row[1]) and row[column] != ABSENT
            ]
            best |= {*best_cells(table.rows, compared, column)} if len(compared) > 1 else set()
    return replace(table, best=frozenset(best))


def comparison_table(summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str) -> Table:
    """Tabulate every comparison with the baseline and its p-values."""
    records = {one.key: one.records for one in summaries}
    rows = []
    for one in summaries:
        verdict = verdicts.get(one.key)
        if verdict is None or verdict.difference is None:
            continue
        ours, theirs = (
            {run.seed: score_of(run, one.data, one.metric) or 0.0 for run in side}
            for side in (one.records, records[baseline, one.data, one.setting])
        )
        gains = [score - theirs[seed] for seed, score in ours.items() if seed in theirs]
        tests = (verdict.difference.p_seeds, verdict.p)
        rows.append(
            (
                *(one.label, one.data, str(one.setting), str(verdict.seeds)),
                f"{one.factor * float(np.mean(gains)):+.1f}",
                f"{verdict.difference.p_items:.4f}",
                *(ABSENT if p is None else f"{p:.4f}" for p in tests),
            )
        )
    return Table(
        title=f"Differences from {baseline}, x 100",
        header=("method", "set", "point", "seeds", "difference", "p over rows", "p over seeds", "p, Holm"),
        rows=tuple(rows),
        notes=("p, Holm: the larger of both p-values, Holm-corrected over the methods of a set and point",),
    )


def class_table(summaries: Sequence[Summary]) -> Table:
    """Tabulate F1 x 100 of the rarest and of the other classes, the mean over seeds (LaCon, table 5)."""
    rows = []
    for one in summaries:
        first = one.records[0]
        counts = first.details["class_counts"]
        rare = first.datasets[0].classes.index(
            first.details["minority"] or min(counts, key=counts.__getitem__)
        )
        scores = []
        for run in one.records:
            data, found = run.datasets[0], load_predictions(run)
            counted = confusion(found.values[data.name], found.gold[data.name], len(data.classes))
            scores.append([float(value) for value in f1_of_classes(counted)])
        minor = fmean(each[rare] for each in scores)
        major = fmean(fmean(each[:rare] + each[rare + 1 :]) for each in scores)
        rows.append((one.label, one.data, str(one.setting), f"{100 * minor:.1f}", f"{100 * major:.1f}"))
    return Table(
        title="F1 x 100 of the minority and of the majority classes, mean over seeds",
        header=("method", "set", "point", "minority", "majority"),
        rows=tuple(rows),
    )


def average_table(summaries: Sequence[Summary]) -> Table:
    """Tabulate methods and sets by values, with the average over the values except 0 (SCL, table 5)."""
    settings = sorted({one.setting for one in summaries}, key=lambda one: one.value or 0.0)
    means = {one.key: one.mean for one in summaries}
    rows = []
    for label, data in dict.fromkeys(one.key[:2] for one in summaries):
        found = [means.get((label, data, setting)) for setting in settings]
        changed = [mean for mean, setting in zip(found, settings, strict=True) if setting.value]
        whole = [mean for mean in changed if mean is not None]
        average = fmean(whole) if whole and len(whole) == len(changed) else None
        rows.append((label, data, *(ABSENT if one is None else f"{one:.1f}" for one in (*found, average))))
    name = varied(settings[0])
    return Table(
        title=f"Mean x 100 by {name}, and the average excluding {name} 0",
        header=("method", "set", *map(_value, settings), "average"),
        rows=tuple(rows),
    )


def varied(setting: Setting) -> str:
    """Return the heading of a setting's values."""
    return _VARIED.get(setting.name, setting.name)


def _value(setting: Setting) -> str:
    return setting.name if setting.value is None else f"{setting.value:g}"


def _seeds(summary: Summary) -> str:
    return ABSENT if summary.records[0].seed is None else str(len(summary.records))


def _text(part: pd.DataFrame) -> str:
    return str(part["text"].iloc[0])


def _notes(
    experiment: Experiment, summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict]
) -> Iterator[str]:
    """Yield the notes below a table: spread, tests, missing runs, settings and rows."""
    baseline, best = experiment.baseline, experiment.best
    rule = (
        f"↑ ↓: significantly better or worse than {baseline} at {LEVEL:g}; p is the larger of a permutation "
        "test over test rows (exchanging all seeds of a row) and a paired t-test over seeds, Holm-corrected "
        "over the methods of a column"
    )
    compared = any(verdict.p is not None for verdict in verdicts.values())
    if experiment.kind != "classification":
        yield "± is the sample standard deviation over seeds"
        yield from [rule] if compared else []
        means = {(one.label, one.data): one.mean for one in summaries}
        for name, one in experiment.differences.items():
            for data, published in one.published.items():
                if {(one.of, data), (one.to, data)} <= means.keys():
                    change = means[one.of, data] - means[one.to, data]
                    yield f"{name}: {change:.2f} on {data} (the paper: {published})"
        return
    runs = max(len(one.records) for one in summaries)
    reported = f"{runs} seeds" if best is None else f"the best {best} of {runs} runs by validation"
    yield f"x 100, mean ± sample standard deviation over {reported}"
    if compared:
        yield rule + ("" if best is None else ", over all seeds")
    yield from _missing_notes(summaries, verdicts, baseline, runs)
    yield from _setting_notes(summaries)
    for data in dict.fromkeys(one.data for one in summaries):
        yield _rows_note(data, [run for one in summaries if one.data == data for run in one.records])
    yield from dict.fromkeys(note for one in summaries for note in _absent_classes(one))


def _missing_notes(
    summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str | None, runs: int
) -> Iterator[str]:
    for summary in summaries:
        place = f"{summary.label} on {summary.data} at {summary.setting}"
        if len(summary.records) < runs:
            yield f"{place}: {len(summary.records)} seeds"
        if summary.key in verdicts and verdicts[summary.key].difference is None:
            yield f"{place}: not compared with {baseline}"
    with_baseline = {one.key[1:] for one in summaries if one.label == baseline}
    for data, setting in dict.fromkeys(one.key[1:] for one in summaries):
        if (data, setting) not in with_baseline:
            yield f"{data} at {setting}: no comparison, because {baseline} was not run"


def _setting_notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield the settings that all share in one line, and a line for each in which methods or sets differ."""
    common, differing = [], []
    for key, name in _SHARED.items():
        values = {
            (one.label, one.data): _shown(options_of(run)[key])
            for one in summaries
            for run in one.records
            if options_of(run).get(key) not in (None, "none")
        }
        if len({*values.values()}) == 1:
            common.append(f"{name} {next(iter(values.values()))}")
        elif values:
            differing.append(f"{name}: {_by_owner(values)}")
    yield from [f"all methods: {', '.join(common)}"] if common else []
    yield from differing
    for label, first in {one.label: one.records[0] for one in reversed(summaries)}.items():
        if probe := options_of(first).get("probe_options"):
            listed = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in probe.items())
            yield (
                f"{label}: two stages; the settings above train the encoder with the contrastive loss alone, "
                f"then a linear head is fitted on its frozen vectors ({listed})"
            )


def _by_owner(values: Mapping[tuple[str, str], str]) -> str:
    """List values by set if methods agree on every set, else by method."""
    owners = []
    for side in (1, 0):
        names = dict.fromkeys(key[side] for key in values)
        owners.append({name: {value for key, value in values.items() if key[side] == name} for name in names})
    by_set, by_method = owners
    chosen = by_set if all(len(found) == 1 for found in by_set.values()) else by_method
    return "; ".join(f"{owner} {', '.join(sorted(found))}" for owner, found in chosen.items())


def _rows_note(data: str, records: Sequence[Record]) -> str:
    sizes = [run.details["sizes"] for run in records]
    note = f"{data}: {', '.join(f'{_range([one[part] for one in sizes])} {part}' for part in sizes[0])} rows"
    if steps := [found for run in records if (found := _steps(run)) is not None]:
        note += f"; {_range(steps)} steps"
    left_out = [f"{count:,} {reason}" for reason, count in records[0].details["left_out"].items() if count]
    return note + (f"; excluded from the training split: {', '.join(left_out)}" if left_out else "")


def _absent_classes(summary: Summary) -> Iterator[str]:
    for name in summary.records[0].datasets[0].classes:
        count = sum(run.details["class_counts"].get(name) == 0 for run in summary.records)
        if count:
            draws = f"{count} of {len(summary.records)} draws"
            yield f"{summary.data} at {summary.setting}: {draws} do not contain a training row of {name}"


def _steps(record: Record) -> int | None:
    options = options_of(record)
    if "epochs" not in options or "batch_size" not in options:
        return None
    if isinstance(options.get("max_steps"), int):  # replaces the number of epochs
        return int(options["max_steps"])
    rows: int = record.details["sizes"]["train"]
    return int(options["epochs"]) * -(-rows // int(options["batch_size"]))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
