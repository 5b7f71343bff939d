"""Tables and figures of an experiment: records over seeds, compared with the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from sentemb._files import write_bytes, write_text
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference, compare, holm
from sentemb.evaluation.measures import confusion, f1_of_classes
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.schema import Record, slug, without_seed
from sentemb.evaluation.statistics import LEVEL
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.systems import system_of
from sentemb.experiments.experiment import Experiment, Setting, default_options
from sentemb.report.table import ABSENT, Table, best_cells, mean_cell, pivot

AVERAGE, _PUBLISHED = "average", "published"
_METRICS: Mapping[str, str] = {
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

Key = tuple[str, str, Setting]
"""Label, data set and setting."""
Band = tuple[list[float], list[float], list[float]]
"""Values, means and standard deviations."""


@dataclass(frozen=True, eq=False)
class Summary:
    """One method on one data set at one setting."""

    label: str  # the method, with the differing options if records of one name have several
    data: str  # the data set, or `average`
    setting: Setting
    metric: str
    records: tuple[Record, ...]  # one for each seed, by seed
    scores: tuple[float, ...]  # of all seeds or of the best, in the scale of the suite

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
    def is_drawn(self) -> bool:
        """True if seeds decide the encoder."""
        return self.records[0].seed is not None


class Verdict(NamedTuple):
    """A method compared with the baseline, among the other methods of its column."""

    difference: Difference | None  # None if the two cannot be compared
    seeds: int
    p: float | None  # Holm-corrected; None for a single seed of what has several

    @property
    def marker(self) -> str:
        """Arrow if the difference is significant."""
        if self.difference is None or self.p is None or self.p >= LEVEL:
            return ""
        return " ↑" if self.difference.size > 0 else " ↓"


def experiment_tables(experiment: Experiment, records: Sequence[Record]) -> list[Table]:
    """Make the tables of an experiment.

    Args:
        experiment: The experiment.
        records: Records of any experiments.

    Returns:
        The scores; the further tables of the experiment; ranks; and the comparisons, if there are any.

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
        from sentemb.experiments.multitask import multitask_tables

        return multitask_tables(own)
    from sentemb.experiments.comparisons import difference_table, rank_table

    summaries = summarize(own, best=experiment.best)
    verdicts = {name: verdicts_of(summaries, name) for name in experiment.baselines}
    tables = [_results(experiment, summaries, next(iter(verdicts.values()), {}))]
    for metric in experiment.tables:
        if metric in _METRICS:
            tables.append(_results(experiment, summarize(own, metric=metric), {}))
    if "classes" in experiment.tables:
        tables.append(class_table(summaries))
    if AVERAGE in experiment.tables:
        tables.append(average_table(summaries))
    if ranks := rank_table(summaries):
        tables.append(ranks)
    for baseline, found in verdicts.items():
        if any(one.difference is not None for one in found.values()):
            tables.append(difference_table(summaries, found, baseline))
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
    metrics = {one.data: _METRICS[one.metric] for one in summaries}
    for data, lines in curves(summaries).items():
        y_label = f"{data}, {metrics[data]} x 100"
        figure = band_figure(lines, x_label=_heading(experiment.setting), y_label=y_label)
        path = folder / f"{experiment.name}.{slug(data)}.png"
        write_bytes(path, png_of(figure))
        yield path


def curves(summaries: Sequence[Summary]) -> dict[str, dict[str, Band]]:
    """Return ascending values, means and standard deviations x 100 for each data set and method."""
    found: dict[str, dict[str, Band]] = {}
    points = [(one.setting.value, one) for one in summaries if isinstance(one.setting.value, float | int)]
    for value, one in sorted(points, key=lambda point: point[0]):
        deviation = one.factor * stdev(one.scores) if len(one.scores) > 1 else 0.0
        band = found.setdefault(one.data, {}).setdefault(one.label, ([], [], []))
        for column, number in zip(band, (value, one.mean, deviation), strict=True):
            column.append(number)
    return found


def summarize(
    records: Sequence[Record], *, best: int | None = None, metric: str | None = None
) -> list[Summary]:
    """Summarize the records of an experiment over seeds, in their order.

    With `best`, so many runs count, those with the best scores on validation rows (SCL, section 4.1), or all
    if there are fewer. Encoders evaluated on all sets of a suite also have an average.
    """
    groups: dict[Key, list[Record]] = {}
    for record, label in zip(records, _labels(records), strict=True):
        averaged = get_suite(record.suite).sets and score_of(record, AVERAGE, metric) is not None
        for data in (*(one.name for one in record.datasets), *([AVERAGE] if averaged else [])):
            groups.setdefault((label, data, _setting_of(record)), []).append(record)
    summaries = []
    for (label, data, setting), runs in groups.items():
        runs.sort(key=lambda run: run.seed or 0)
        if len({run.seed for run in runs}) < len(runs):
            raise InputError(
                f"two records of {label} on {data} at {setting} have the same seed "
                "but different data or metrics",
                "keep the experiments in separate folders",
            )
        name = metric or metric_of(runs[0])
        counted = runs
        if best is not None and len(runs) >= best:
            counted = sorted(runs, key=lambda run: -run.score(data, name, "validation"))[:best]
        scores = [score for run in counted if (score := score_of(run, data, metric)) is not None]
        summaries.append(Summary(label, data, setting, name, tuple(runs), tuple(scores)))
    return summaries


def verdicts_of(summaries: Sequence[Summary], baseline: str) -> dict[Key, Verdict]:
    """Compare every method with the baseline, over the seeds that both have, where the baseline was run."""
    verdicts: dict[Key, Verdict] = {}
    compared: dict[tuple[int, int], tuple[Mapping[str, Difference], int]] = {}
    bases = {one.key[1:]: one for one in summaries if one.label == baseline}
    for one in summaries:
        base = bases.get(one.key[1:])
        if base is None or one is base:
            continue
        place = (id(one.records[0]), id(base.records[0]))  # all sets of an encoder at once
        if place not in compared:
            compared[place] = differences_of(base.records, one.records)
        found, seeds = compared[place]
        verdicts[one.key] = Verdict(found.get(one.data), seeds, None)
    for point in bases:
        raw: dict[Key, float] = {}
        for one in (one for one in summaries if one.key[1:] == point and one.key in verdicts):
            difference = verdicts[one.key].difference
            if difference is not None and difference.p_seeds is not None:
                raw[one.key] = max(difference.p_items, difference.p_seeds)
            elif difference is not None and not (one.is_drawn or bases[point].is_drawn):
                raw[one.key] = difference.p_items
        for key, p in zip(raw, holm([*raw.values()]), strict=True):
            verdicts[key] = verdicts[key]._replace(p=p)
    return verdicts


def differences_of(
    baseline: Sequence[Record], records: Sequence[Record]
) -> tuple[Mapping[str, Difference], int]:
    """Return the differences by data set, including `average`, and the number of common seeds.

    What has no seed is compared with every run.
    """
    sides = [list(baseline), list(records)]
    drawn = [{one.seed for one in side} for side in sides if side[0].seed is not None]
    common = set.intersection(*drawn) if drawn else set()
    sides = [[one for one in side if one.seed is None or one.seed in common] for side in sides]
    try:
        found = compare(
            *(system_of(side, without_seed(side[0].model), measure=metric_of(side[0])) for side in sides),
            intervals=False,
        )
    except (IndexError, InputError):  # no common seed, or evaluated on other items
        return {}, len(common)
    average = {} if found.average is None else {AVERAGE: found.average}
    return {one.name: one for one in found.sets} | average, len(common)


def score_of(record: Record, data: str, metric: str | None = None) -> float | None:
    """Return the headline of a data set, None if the record does not have it."""
    # Records of classifiers have their setting as protocol.
    protocol = record.protocol if record.suite in ("sts", "multilingual") else "all"
    metric = metric or metric_of(record)
    if data == AVERAGE:
        return record.average(metric, protocol)
    found = record.find(data, metric, protocol)
    return None if found is None else found.value


def metric_of(record: Record) -> str:
    """Return the metric of a record's headline."""
    return str(record.details.get("metric") or get_suite(record.suite).measure)


def options_of(record: Record) -> Mapping[str, Any]:
    """Return the options of a record's trial."""
    return {} if record.trial is None else record.trial.options


def _own(experiment: Experiment, records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one.trial is not None and one.trial.experiment == experiment.name]


def _setting_of(record: Record) -> Setting:
    varied = {} if record.trial is None else record.trial.setting
    return next((Setting(name, value) for name, value in varied.items()), Setting("full"))


def _labels(records: Sequence[Record]) -> list[str]:
    """Return the label of each record: its method, and the options that differ between its variants.

    Variants are records of one method with other options on the same data.
    """
    named = []
    variants: dict[Key, list[Mapping[str, str]]] = {}
    for record in records:
        flat = _flat({**default_options(record.suite), **options_of(record)} if record.trial else {})
        if "start_fingerprint" in flat:
            # The base may be written in two ways, and the beginning of its digest suffices.
            flat["start_fingerprint"] = flat["start_fingerprint"].strip('"')[:8]
            flat.pop("base", None)
        name = record.trial.method if record.trial else record.model
        named.append((name, flat))
        variants.setdefault((name, record.datasets[0].name, _setting_of(record)), []).append(flat)
    differing: dict[str, set[str]] = {}
    for (name, _, _), found in variants.items():
        keys = {key for own in found for key in own if len({one.get(key) for one in found}) > 1}
        differing.setdefault(name, set()).update(keys)
    labels = []
    for name, flat in named:
        shown = ", ".join(f"{key}={flat.get(key, 'default')}" for key in sorted(differing[name]))
        labels.append(f"{name} ({shown})" if shown else name)
    return labels


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return options as JSON, those of tables as TABLE.NAME."""
    flat: dict[str, str] = {}
    for key, value in options.items():
        is_table = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if is_table else {f"{prefix}{key}": json.dumps(value)}
    return flat


def _results(experiment: Experiment, summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict]) -> Table:
    """Tabulate methods by data sets: mean ± standard deviation x 100, the best of each column in bold."""
    import pandas as pd

    # Tables of encoders have the number of seeds and the published result of each row.
    encoders = experiment.kind != "classification"
    published = {one.name: one.published for one in experiment.chosen if one.published is not None}
    metrics = {one.data: _METRICS.get(one.metric, one.metric) for one in summaries}
    settings = sorted({one.setting for one in summaries}, key=_in_order)
    labels = sorted(
        {one.label: one for one in summaries}, key=lambda label: label not in experiment.baselines[:1]
    )
    lines = []
    for one in sorted(summaries, key=lambda one: (settings.index(one.setting), labels.index(one.label))):
        first = next(other for other in summaries if other.key[::2] == one.key[::2])
        seeds = ABSENT if first.records[0].seed is None else str(len(first.records))
        row = {"label": one.label, "point": one.setting.text, "seeds": seeds}
        marker = verdicts[one.key].marker if one.key in verdicts else ""
        text = mean_cell(one.scores, 2 if encoders else 1, scale=one.factor) + marker
        lines.append({**row, "data": one.data, "text": text})
        lines.append({**row, "data": _PUBLISHED, "text": published.get(one.label, ABSENT)})
    rows = {"label": "method"} | ({"point": _heading(settings[0].name)} if len(settings) > 1 else {})
    rows |= {"seeds": "seeds"} if encoders else {}
    order = {data: data if encoders else f"{data} {metric}" for data, metric in metrics.items()}
    table = pivot(
        pd.DataFrame(lines),
        title=experiment.title + (f", {next(iter(metrics.values()))} x 100" if encoders else ""),
        rows=rows,
        column="data",
        order=order | ({_PUBLISHED: _PUBLISHED} if published else {}),
        cell=lambda part: str(part["text"].iloc[0]),
        complete=False,
        notes=tuple(_notes(experiment, summaries, verdicts)),
    )
    best: set[tuple[int, int]] = set()
    for point in {row[1] for row in table.rows} if len(settings) > 1 else {None}:
        for column in range(len(rows), len(rows) + len(order)):
            of_point = [number for number, row in enumerate(table.rows) if point in (None, row[1])]
            compared = [number for number in of_point if table.rows[number][column] != ABSENT]
            best |= {*best_cells(table.rows, compared, column)} if len(compared) > 1 else set()
    return replace(table, best=frozenset(best))


def class_table(summaries: Sequence[Summary]) -> Table:
    """Tabulate F1 x 100 of the rarest and of the other classes, the mean over seeds (LaCon, table 5)."""
    rows = []
    for one in summaries:
        data, details = one.records[0].datasets[0], one.records[0].details
        counts = details["class_counts"]
        rare = data.classes.index(details["minority"] or min(counts, key=counts.__getitem__))
        scores = []
        for run in one.records:
            found = load_predictions(run)
            counted = confusion(found.values[data.name], found.gold[data.name], len(data.classes))
            scores.append(f1_of_classes(counted).tolist())
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
    settings = sorted({one.setting for one in summaries}, key=_in_order)
    means = {one.key: one.mean for one in summaries}
    rows = []
    for label, data in dict.fromkeys(one.key[:2] for one in summaries):
        found = {setting: means.get((label, data, setting)) for setting in settings}
        changed = [mean for setting, mean in found.items() if setting.value]
        whole = [mean for mean in changed if mean is not None]
        average = fmean(whole) if whole and len(whole) == len(changed) else None
        cells = (ABSENT if one is None else f"{one:.1f}" for one in (*found.values(), average))
        rows.append((label, data, *cells))
    name = _heading(settings[0].name)
    return Table(
        title=f"Mean x 100 by {name}, and the average excluding {name} 0",
        header=("method", "set", *(one.text for one in settings), AVERAGE),
        rows=tuple(rows),
    )


def _in_order(setting: Setting) -> tuple[str, float, str]:
    """Return what settings are sorted by: numbers by size, texts by length, so that a set is before sums."""
    value = setting.value or 0.0
    return (setting.name, len(value), value) if isinstance(value, str) else (setting.name, value, "")


def _heading(setting: str) -> str:
    return _VARIED.get(setting, setting)


def _notes(
    experiment: Experiment, summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict]
) -> Iterator[str]:
    """Yield the notes below a table: spread, tests, missing runs, settings and rows."""
    baseline, best = next(iter(experiment.baselines), None), experiment.best
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
    for one in summaries:
        place = f"{one.label} on {one.data} at {one.setting}"
        if len(one.records) < runs:
            yield f"{place}: {len(one.records)} seeds"
        if one.key in verdicts and verdicts[one.key].difference is None:
            yield f"{place}: not compared with {baseline}"
    with_baseline = {one.key[1:] for one in summaries if one.label == baseline}
    for data, setting in dict.fromkeys(one.key[1:] for one in summaries):
        if (data, setting) not in with_baseline:
            yield f"{data} at {setting}: no comparison, because {baseline} was not run"


def _setting_notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield the settings that all share in one line, and a line for each in which methods or sets differ."""
    common, differing = [], []
    for key, name in _SHARED.items():
        by_set: dict[str, dict[str, str]] = {}
        for one in summaries:
            for run in one.records:
                if (value := options_of(run).get(key)) not in (None, "none"):
                    by_set.setdefault(one.data, {})[one.label] = _shown(value)
        values = {value for own in by_set.values() for value in own.values()}
        if len(values) == 1:
            common.append(f"{name} {values.pop()}")
        elif values:
            differing.append(f"{name}: {_by_owner(by_set)}")
    yield from [f"all methods: {', '.join(common)}"] if common else []
    yield from differing
    for label, first in {one.label: one.records[0] for one in reversed(summaries)}.items():
        if probe := options_of(first).get("probe_options"):
            listed = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in probe.items())
            yield (
                f"{label}: two stages; the settings above train the encoder with the contrastive loss alone, "
                f"then a linear head is fitted on its frozen vectors ({listed})"
            )


def _by_owner(by_set: Mapping[str, Mapping[str, str]]) -> str:
    """List values by set if methods agree on every set, else by method."""
    owners: dict[str, set[str]] = {data: {*own.values()} for data, own in by_set.items()}
    if any(len(values) > 1 for values in owners.values()):
        owners = {}
        for own in by_set.values():
            for label, value in own.items():
                owners.setdefault(label, set()).add(value)
    return "; ".join(f"{owner} {', '.join(sorted(values))}" for owner, values in owners.items())


def _rows_note(data: str, records: Sequence[Record]) -> str:
    sizes = [run.details["sizes"] for run in records]
    note = f"{data}: {', '.join(f'{_range([one[part] for one in sizes])} {part}' for part in sizes[0])} rows"
    steps = []
    for run in records:
        options = options_of(run)
        if "epochs" in options and "batch_size" in options:
            batches = -(-run.details["sizes"]["train"] // int(options["batch_size"]))
            most = options.get("max_steps")  # replaces the number of epochs
            steps.append(int(most) if isinstance(most, int) else int(options["epochs"]) * batches)
    note += f"; {_range(steps)} steps" if steps else ""
    left_out = [f"{count:,} {reason}" for reason, count in records[0].details["left_out"].items() if count]
    return note + (f"; excluded from the training split: {', '.join(left_out)}" if left_out else "")


def _absent_classes(summary: Summary) -> Iterator[str]:
    for name in summary.records[0].datasets[0].classes:
        count = sum(run.details["class_counts"].get(name) == 0 for run in summary.records)
        if count:
            draws = f"{count} of {len(summary.records)} draws"
            yield f"{summary.data} at {summary.setting}: {draws} do not contain a training row of {name}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
