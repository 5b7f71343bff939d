"""Transfer reports as a table: models by tasks, the seeds of the classifiers in one row."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from sentemb.evaluation.table import ABSENT, Table
from sentemb.evaluation.transfer.relatedness import RelatednessResult
from sentemb.evaluation.transfer.suite import TransferReport
from sentemb.evaluation.transfer.tasks import TASKS


def transfer_table(reports: Sequence[TransferReport], preset: str) -> Table:
    """Mean accuracy over the seeds of the classifiers with the sample standard deviation, x 100.

    Args:
        reports: Reports, in any order.
        preset: The preset to show: accuracies of different classifiers do not compare.

    Returns:
        A row for each model.
    """
    shown = [report for report in reports if report.preset == preset and report.results]
    found = {result.task for report in shown for result in report.results}
    tasks = [task for task in TASKS if task in found]
    models: dict[str, list[TransferReport]] = {}
    for report in shown:
        models.setdefault(report.model, []).append(report)
    rows = []
    for model, seeds in models.items():
        accuracies = [{one.task: one.accuracy for one in report.results} for report in seeds]
        cells = [_cell([one[task] for one in accuracies if task in one]) for task in tasks]
        averages = [report.average for report in seeds if report.average is not None]
        rows.append((model, str(len(seeds)), *cells, _cell(averages)))
    return Table(
        title=f"Transfer tasks, accuracy x 100, preset {preset}",
        header=("model", "seeds", *(TASKS[task].label for task in tasks), "average"),
        rows=tuple(rows),
        notes=(
            "± is the standard deviation over seeds of the classifiers",
            "average: of MR, CR, SUBJ, MPQA, SST-2, TREC and MRPC",
        ),
    )


def relatedness_table(reports: Sequence[TransferReport]) -> Table:
    """Trained regressions: means over the seeds, with the sample standard deviation.

    Args:
        reports: Reports, in any order; the regression is the same under every preset, so a seed counts once.

    Returns:
        A row for each model and task.
    """
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
