"""The evaluation of a model card: what records say of one model, as the hub's metadata and as a section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from huggingface_hub import EvalResult

from sentemb._tables import Table
from sentemb.data import catalogue
from sentemb.errors import InputError
from sentemb.evaluation.geometry_records import GeometryRecord
from sentemb.evaluation.geometry_table import geometry_table
from sentemb.evaluation.recorded import Recorded
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.suites import get_suite
from sentemb.evaluation.table import sts_table
from sentemb.evaluation.transfer.suite import TransferReport
from sentemb.evaluation.transfer.table import relatedness_table, transfer_table
from sentemb.evaluation.transfer.tasks import TASKS


def eval_results(recorded: Recorded) -> list[EvalResult]:
    """What goes into the metadata of the card: correlations of cosines and accuracies, as fractions.

    Names are those that sentence-transformers gives the scores of its own evaluators.
    """
    return [
        *(result for record in recorded.scored for result in _correlations(record)),
        *(result for report in recorded.transfers for result in _accuracies(report)),
    ]


def _correlations(record: ResultRecord) -> Iterator[EvalResult]:
    suite = get_suite(record.suite)
    for one in record.sets:
        if suite.protocol not in one.scores:
            continue
        entry = _entry(one.name)
        yield EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic Similarity",
            dataset_type=(entry and entry.hub_id) or one.name,
            dataset_name=one.name,
            dataset_config=entry.config if entry else None,
            dataset_split=one.split,
            metric_type=f"{suite.measure}_cosine",
            metric_name=f"{suite.measure.capitalize()} of cosines, protocol {suite.protocol}",
            metric_value=round(getattr(one.scores[suite.protocol], suite.measure) / 100, 4),
        )


def _entry(name: str) -> catalogue.Entry | None:
    try:
        return catalogue.get(name)
    except InputError:  # a set of the user's own
        return None


def _accuracies(report: TransferReport) -> Iterator[EvalResult]:
    for result in report.results:
        task = TASKS.get(result.task)
        name = task.data if task is not None else result.task
        yield EvalResult(
            task_type="text-classification",
            task_name="Text Classification",
            dataset_type=name,
            dataset_name=name if task is None else task.label,
            dataset_split="train" if task is not None and task.validation == "nested" else "test",
            metric_type="accuracy",
            metric_name=f"Accuracy of SentEval's classifier, preset {report.preset}, seed {report.seed}",
            metric_value=round(result.accuracy / 100, 4),
        )


def evaluation_section(recorded: Recorded) -> str:
    """The section that a reader of the card sees."""
    tables = "\n".join(table.markdown() for table in _tables(recorded))
    return f"## Evaluation\n\n{tables}\n{_provenance(recorded)}\n"


def _tables(recorded: Recorded) -> Iterator[Table]:
    for name in dict.fromkeys(record.suite for record in recorded.scored):
        suite = get_suite(name)
        records = [record for record in recorded.scored if record.suite == name]
        yield sts_table(records, suite.protocol, measure=suite.measure)
    for preset in dict.fromkeys(report.preset for report in recorded.transfers if report.results):
        yield transfer_table(recorded.transfers, preset)
    if any(report.relatedness for report in recorded.transfers):
        yield relatedness_table(recorded.transfers)
    for where in dict.fromkeys((record.data, record.split) for record in recorded.geometries):
        yield geometry_table([one for one in recorded.geometries if (one.data, one.split) == where])


def _provenance(recorded: Recorded) -> str:
    dated: Sequence[ResultRecord | GeometryRecord] = [*recorded.scored, *recorded.geometries]
    versions = dict.fromkeys(one.versions.get("sentemb", "") for one in dated)
    measured = (
        f"Measured with sentemb {', '.join(filter(None, versions))}" if dated else "Measured with sentemb"
    )
    days = sorted({one.date[:10] for one in dated})
    return f"{measured}{f', {days[-1]}' if days else ''}; the records hold every setting and prediction."
