"""The suite of transfer tasks, whose record grows task by task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sentemb._tables import Table
from sentemb.data.labelled import LabelledTexts
from sentemb.encoding import TextEncoder
from sentemb.evaluation.everything.suite import Loaded, Options, Reading, check_same_encoder
from sentemb.evaluation.transfer.presets import preset_of
from sentemb.evaluation.transfer.records import read_transfer, transfer_path, write_transfer
from sentemb.evaluation.transfer.suite import TransferReport, judge_tasks
from sentemb.evaluation.transfer.table import transfer_table
from sentemb.evaluation.transfer.tasks import TRANSFER_TASKS, load_tasks

SEED = 1111
"""Of the classifiers, as in SentEval's example."""


@dataclass(frozen=True)
class TransferSuite:
    """Accuracies of classifiers on frozen vectors.

    Attributes:
        tasks: The splits of each task that is there.
        options: The options.
    """

    tasks: Mapping[str, Mapping[str, LabelledTexts]]
    options: Options
    name: str = "transfer"

    @classmethod
    def load(cls, options: Options) -> Loaded:
        """Read the papers' seven tasks."""
        preset_of(options.preset)
        reading = Reading()
        tasks = reading.read(
            TRANSFER_TASKS,
            lambda name: load_tasks([name], data_dir=options.data_dir, check_rows=options.check_rows)[name],
        )
        return Loaded((cls(tasks, options),) if tasks else (), tuple(reading.missing))

    def find(self, folder: Path, encoder: TextEncoder, *, overwrite: bool) -> TransferReport | None:
        """See `Suite.find`."""
        path = transfer_path(folder, encoder.name, preset=self.options.preset, seed=SEED)
        if not path.exists():
            return None
        report = read_transfer(path)
        same = check_same_encoder(path, encoder, report.fingerprint, report.encoder, overwrite=overwrite)
        return report if same else None

    def texts(self, found: TransferReport | None) -> Iterable[str]:
        """See `Suite.texts`."""
        for task in self._left(found):
            yield from _texts(self.tasks[task])

    def judge(
        self, encoder: TextEncoder, found: TransferReport | None
    ) -> Iterator[tuple[TransferReport, str]]:
        """See `Suite.judge`; one part for each task."""
        report = found
        for task in self._left(found):
            (alone,) = judge_tasks(
                encoder, {task: self.tasks[task]}, preset=self.options.preset, seeds=[SEED]
            )
            report = alone if report is None else self._joined(report, alone)
            (result,) = alone.results
            yield report, f"{task} {result.accuracy:.2f}, {result.seconds:.0f} s"

    def write(self, record: TransferReport, folder: Path) -> Path:
        """See `Suite.write`."""
        return write_transfer(record, folder, command=self.options.command)

    def tables(self, records: Sequence[TransferReport]) -> list[Table]:
        """See `Suite.tables`."""
        return [transfer_table(records, self.options.preset)]

    def _left(self, found: TransferReport | None) -> list[str]:
        done = {result.task for result in found.results} if found is not None else set()
        return [task for task in self.tasks if task not in done]

    def _joined(self, report: TransferReport, alone: TransferReport) -> TransferReport:
        results = (*report.results, *alone.results)
        parts = [self.tasks[result.task] for result in results if result.task in self.tasks]
        return replace(
            report,
            results=results,
            unique=len({text for one in parts for text in _texts(one)}),
            seconds={name: value + alone.seconds[name] for name, value in report.seconds.items()},
        )


def _texts(parts: Mapping[str, LabelledTexts]) -> Iterator[str]:
    for part in parts.values():
        yield from part.texts
        yield from part.pairs or ()
