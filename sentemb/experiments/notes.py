"""What a reader of a table must know: what was compared, under which options, on which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentemb.evaluation.schema import Record
from sentemb.evaluation.significance import LEVEL
from sentemb.experiments.experiment import Experiment
from sentemb.experiments.summary import Summary
from sentemb.experiments.verdicts import Key, Verdict

_RULE = (
    f"↑ ↓: significantly better or worse than {{baseline}} at {LEVEL:g}; p is the larger of a "
    "permutation test over test rows (exchanging all seeds of a row) and a paired t-test over seeds, "
    "Holm-corrected over the methods of a column"
)
# What is the same for all methods of a fair comparison, and how it is called.
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


def table_notes(
    summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], experiment: Experiment
) -> list[str]:
    """The notes below a table."""
    baseline, best = experiment.baseline, experiment.best
    if experiment.kind != "classification":
        spread = "± is the sample standard deviation over seeds"
        compared = any(verdict.p is not None for verdict in verdicts.values())
        rule = [_RULE.format(baseline=baseline)] if compared else []
        return [spread, *rule, *_differences(summaries, experiment)]
    runs = max(len(one.records) for one in summaries)
    reported = f"the best {best} of {runs} runs by validation" if best is not None else f"{runs} seeds"
    notes = [f"x 100, mean ± sample standard deviation over {reported}"]
    if any(verdict.p is not None for verdict in verdicts.values()):
        notes.append(_RULE.format(baseline=baseline) + (", over all seeds" if best is not None else ""))
    notes += _missing(summaries, verdicts, baseline, runs)
    notes += _settings(summaries)
    for data in dict.fromkeys(one.data for one in summaries):
        notes.append(_rows(data, [run for one in summaries if one.data == data for run in one.records]))
    notes += dict.fromkeys(note for one in summaries for note in _lacking(one))
    return notes


def _differences(summaries: Sequence[Summary], experiment: Experiment) -> list[str]:
    """What the methods lose of which the paper says it."""
    means = {(one.label, one.data): one.mean for one in summaries}
    return [
        f"{name}: {means[one.of, data] - means[one.to, data]:.2f} on {data} (the paper: {published})"
        for name, one in experiment.differences.items()
        for data, published in one.published.items()
        if {(one.of, data), (one.to, data)} <= means.keys()
    ]


def _missing(
    summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str | None, runs: int
) -> list[str]:
    notes = []
    for one in summaries:
        if len(one.records) < runs:
            notes.append(f"{one.label} on {one.data} at {one.setting}: {len(one.records)} seeds")
        verdict = verdicts.get(one.key)
        if verdict and verdict.difference is None:
            notes.append(f"{one.label} on {one.data} at {one.setting}: not compared with {baseline}")
    with_baseline = {(one.data, one.setting) for one in summaries if one.label == baseline}
    for data, setting in dict.fromkeys((one.data, one.setting) for one in summaries):
        if (data, setting) not in with_baseline:
            notes.append(f"{data} at {setting}: no comparison, because {baseline} was not run")
    return notes


def _settings(summaries: Sequence[Summary]) -> list[str]:
    """The settings that all share in one line, and a line for each in which methods or sets differ."""
    common, differing = [], []
    for key, name in _SHARED.items():
        values = {
            (one.label, one.data): _shown(_options(run)[key])
            for one in summaries
            for run in one.records
            if _options(run).get(key) not in (None, "none")
        }
        if len(set(values.values())) == 1:
            common.append(f"{name} {next(iter(values.values()))}")
        elif values:
            differing.append(f"{name}: {_by_owner(values)}")
    notes = [f"all methods: {', '.join(common)}"] if common else []
    notes += differing
    for label in dict.fromkeys(one.label for one in summaries):
        first = next(one for one in summaries if one.label == label).records[0]
        probe = _options(first).get("probe_options")
        if probe:
            listed = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in probe.items())
            notes.append(
                f"{label}: two stages; the settings above train the encoder with the contrastive loss "
                f"alone, then a linear head is fitted on its frozen vectors ({listed})"
            )
    return notes


def _by_owner(values: Mapping[tuple[str, str], str]) -> str:
    """Whose each value is: the sets' where methods agree on every set, else the methods'."""
    by_set = {data: {value for (_, at), value in values.items() if at == data} for _, data in values}
    by_method = {label: {value for (of, _), value in values.items() if of == label} for label, _ in values}
    owners = by_set if all(len(found) == 1 for found in by_set.values()) else by_method
    return "; ".join(f"{owner} {', '.join(sorted(found))}" for owner, found in owners.items())


def _rows(data: str, records: Sequence[Record]) -> str:
    parts = [
        f"{_range([run.details['sizes'][part] for run in records])} {part}"
        for part in records[0].details["sizes"]
    ]
    note = f"{data}: {', '.join(parts)} rows"
    if steps := [found for run in records if (found := _steps(run)) is not None]:
        note += f"; {_range(steps)} steps"
    left_out = {reason: count for reason, count in records[0].details["left_out"].items() if count}
    if left_out:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        note += f"; excluded from the training split: {listed}"
    return note


def _lacking(summary: Summary) -> list[str]:
    absent = {
        name: sum(run.details["class_counts"].get(name) == 0 for run in summary.records)
        for name in summary.records[0].datasets[0].classes
    }
    return [
        (
            f"{summary.data} at {summary.setting}: {count} of {len(summary.records)} draws do not contain "
            f"a training row of {name}"
        )
        for name, count in absent.items()
        if count
    ]


def _steps(record: Record) -> int | None:
    settings = _options(record)
    if "epochs" not in settings or "batch_size" not in settings:
        return None
    limit = settings.get("max_steps")
    steps = int(settings["epochs"]) * -(-record.details["sizes"]["train"] // int(settings["batch_size"]))
    # As the trainer does: a number of steps replaces the number of epochs.
    return int(limit) if isinstance(limit, int) else steps


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _options(record: Record) -> Mapping[str, Any]:
    return {} if record.trial is None else record.trial.options
