"""From folders of records to the sections of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.evaluation.naming import check_once
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import FORMAT, Record
from sentemb.evaluation.suites import GEOMETRY, MULTILINGUAL, STS, TRANSFER, Suite
from sentemb.report.analysis_sections import geometry_section, layers_section, training_section
from sentemb.report.comparisons import compare_with_baselines, comparison_sections
from sentemb.report.labels import label_table, mark_best, read_labels
from sentemb.report.results import relatedness_table, sts_table, summary_table, transfer_table
from sentemb.report.sections import Section
from sentemb.report.table import Table


@dataclass(frozen=True)
class Report:
    """What a report says.

    Attributes:
        sections: Its sections.
        verdicts: The sentences to begin with, where a baseline was named.
    """

    sections: tuple[Section, ...]
    verdicts: tuple[str, ...]


def build_report(
    folders: Sequence[Path],
    *,
    runs: Sequence[Path] = (),
    protocol: str = STS.protocol,
    baselines: Sequence[str] = (),
    figures: bool = False,
    cache: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Read all records of some folders and make the sections of a report.

    Args:
        folders: Folders of records; `labels.toml` in one says what its models are called.
        runs: Folders of training runs, whose learning curves are drawn.
        protocol: The protocol of the STS tables.
        baselines: Models to compare the others of their base with.
        figures: Draw figures, for a page.
        cache: Folder where comparisons are kept between reports.
        progress: Told of comparisons: the baseline, the number of data sets done and of all.

    Returns:
        The report.

    Raises:
        InputError: A folder is missing, a record is damaged or there twice, or there is nothing to report.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"no such folder: {folder}", "name a folder that holds records")
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    records = _records(folders)

    def of(suite: Suite) -> list[Record]:
        return [record for record in records if record.suite == suite.name]

    def labelled(table: Table) -> Table:
        return mark_best(label_table(table, labels))

    def transfer(some: Sequence[Record]) -> list[Table | None]:
        presets = sorted({record.protocol for record in some})
        return [*(labelled(transfer_table(some, preset)) for preset in presets), relatedness_table(some)]

    compared = (
        compare_with_baselines(records, baselines, labels, cache=cache, progress=progress)
        if baselines
        else []
    )
    differences, details = comparison_sections(compared) if compared else (None, None)
    found = [
        differences,
        _section("summary", "Averages", of(STS), lambda some: [summary_table(some, labels)]),
        _section(
            STS.name,
            "Semantic textual similarity",
            of(STS),
            lambda some: [labelled(sts_table(some, protocol=protocol))],
        ),
        _section(
            MULTILINGUAL.name,
            "Other languages",
            of(MULTILINGUAL),
            lambda some: [labelled(sts_table(some))],
        ),
        _section(TRANSFER.name, "Transfer tasks", of(TRANSFER), transfer),
        details,
        geometry_section(of(GEOMETRY), folders, labels, figures=figures),
        layers_section(folders, figures=figures),
        training_section(runs) if runs and figures else None,
    ]
    sections = tuple(section for section in found if section is not None)
    if not sections:
        raise InputError(
            f"{', '.join(map(str, folders))}: no record to report",
            "sentemb eval sts MODEL --output FOLDER writes one",
        )
    return Report(sections, tuple(one.verdict() for one in compared))


def _records(folders: Sequence[Path]) -> list[Record]:
    """All records, each run once."""
    holding = [
        folder
        for folder in folders
        if any(_is_record(path) for path in folder.glob("*.json") if not path.name.startswith("."))
    ]
    records = load_records(holding) if holding else []
    check_once([(one.model, f", suite {one.suite}, {one.protocol}", one.seed) for one in records])
    return records


def _is_record(path: Path) -> bool:
    values = read_json(path)
    return isinstance(values, dict) and values.get("format") == FORMAT


def _section(
    name: str,
    heading: str,
    records: Sequence[Record],
    make: Callable[[Sequence[Record]], Sequence[Table | None]],
) -> Section | None:
    """A section of tables; None where no record gives a row."""
    made = make(records) if records else []
    tables = tuple(table for table in made if table is not None and table.rows)
    return Section(name, heading, tables=tables) if tables else None
