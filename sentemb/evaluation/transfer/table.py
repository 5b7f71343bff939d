"""Transfer reports as a table: models or methods by tasks, their seeds in one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, stdev

from sentemb.evaluation.table import ABSENT, Table
from sentemb.evaluation.transfer.records import RelatednessResult, TransferReport
from sentemb.evaluation.transfer.tasks import TASKS

_Groups = dict[str, list[TransferReport]]


def transfer_table(reports: Sequence[TransferReport], preset: str) -> Table:
    """Encoders by tasks: mean accuracy ± sample standard deviation over classifier seeds."""
    encoders = _by(lambda report: report.model, _shown(reports, preset))
    rows = [(model, str(len(own)), [own]) for model, own in encoders.items()]
    return _accuracies(rows, preset, "± is the standard deviation over seeds of the classifiers")


def transfer_seed_table(reports: Sequence[TransferReport], preset: str) -> Table:
    """Methods by tasks: encoders that differ only in an ending `-seed-N` are one method, as in `seed_table`.

    An encoder's accuracy is the mean over its classifiers; a method's the mean over its encoders.
    """
    rows = []
    for method, own in _by(lambda report: report.method, _shown(reports, preset)).items():
        encoders = list(_by(lambda report: report.model, own).values())
        counts = sorted({len(one) for one in encoders})
        trained = str(len(encoders)) if own[0].encoder_seed is not None else ABSENT
        rows.append((method, f"{trained} x {'-'.join(map(str, counts))}", encoders))
    return _accuracies(
        rows,
        preset,
        "seeds: of the encoder x of its classifiers",
        "± is the standard deviation over encoders, or over the classifiers of a single one",
    )


def _shown(reports: Sequence[TransferReport], preset: str) -> list[TransferReport]:
    return [report for report in reports if report.preset == preset and report.results]


def _by(key: Callable[[TransferReport], str], reports: Sequence[TransferReport]) -> _Groups:
    groups: _Groups = {}
    for report in reports:
        groups.setdefault(key(report), []).append(report)
    return groups


def _accuracies(
    rows: Sequence[tuple[str, str, Sequence[Sequence[TransferReport]]]], preset: str, *notes: str
) -> Table:
    """A table of rows of which each has a name, its seeds, and the reports of each of its encoders."""
    found = {
        result.task
        for *_, encoders in rows
        for own in encoders
        for report in own
        for result in report.results
    }
    tasks = [task for task in TASKS if task in found]
    return Table(
        title=f"Transfer tasks, accuracy x 100, preset {preset}",
        header=("model", "seeds", *(TASKS[task].label for task in tasks), "average"),
        rows=tuple(
            (
                name,
                seeds,
                *(_mean(encoders, partial(_accuracy, task=task)) for task in tasks),
                _mean(encoders, lambda report: report.average),
            )
            for name, seeds, encoders in rows
        ),
        notes=(*notes, "average: of MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC"),
    )


def _accuracy(report: TransferReport, task: str) -> float | None:
    return next((one.accuracy for one in report.results if one.task == task), None)


def _mean(
    encoders: Sequence[Sequence[TransferReport]], score: Callable[[TransferReport], float | None]
) -> str:
    scores = [[value for report in own if (value := score(report)) is not None] for own in encoders]
    if not all(scores):
        return ABSENT
    return _cell(scores[0] if len(scores) == 1 else [fmean(own) for own in scores])


def relatedness_table(reports: Sequence[TransferReport]) -> Table:
    """Trained regressions: means over the seeds, with the sample standard deviation."""
    found: dict[tuple[str, str], dict[int, RelatednessResult]] = {}
    for report in reports:
        for result in report.relatedness:
            found.setdefault((report.model, result.task), {})[report.seed] = result
    rows = [
        (
            model,
            task,
            str(len(seeds)),
            *(
                _cell([getattr(one, name) for one in seeds.values()])
                for name in ("pearson", "spearman", "mse")
            ),
        )
        for (model, task), seeds in found.items()
    ]
    return Table(
        title="Relatedness by a trained regression, correlations x 100",
        header=("model", "task", "seeds", "Pearson", "Spearman", "MSE"),
        rows=tuple(rows),
        notes=("trained on each set's own pairs: not to be compared with the cosine of STS tables",),
    )


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ABSENT
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
