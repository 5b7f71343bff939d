"""From folders of records to the sections of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.evaluation.naming import check_once
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import FORMAT, Record
from sentemb.evaluation.suites import GEOMETRY, LAYERS, MULTILINGUAL, RETRIEVAL, STS, TRANSFER
from sentemb.report.analysis_sections import geometry_section, layers_section, training_section
from sentemb.report.comparisons import compare_with_baselines, comparison_sections
from sentemb.report.labels import Label, label_table, mark_best, read_labels
from sentemb.report.results import (
    relatedness_table,
    retrieval_tables,
    sts_table,
    summary_table,
    transfer_table,
)
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
            raise InputError(f"no such folder: {folder}", "list a folder that contains records")
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    records = _records(folders)

    def of(suite: str) -> list[Record]:
        return [record for record in records if record.suite == suite]

    compared = (
        compare_with_baselines(records, baselines, labels, cache=cache, progress=progress)
        if baselines
        else []
    )
    differences, details = comparison_sections(compared) if compared else (None, None)
    found = [
        differences,
        _section("summary", "Averages", _summary_tables(of(STS.name), labels)),
        _section(STS.name, "Semantic textual similarity", _sts_tables(of(STS.name), labels, protocol)),
        _section(MULTILINGUAL.name, "Other languages", _sts_tables(of(MULTILINGUAL.name), labels, None)),
        _section(TRANSFER.name, "Transfer tasks", _transfer_tables(of(TRANSFER.name), labels)),
        _section(RETRIEVAL.name, "Retrieval", _retrieval_tables(of(RETRIEVAL.name), labels)),
        details,
        geometry_section(of(GEOMETRY.name), runs, labels, figures=figures),
        layers_section(of(LAYERS.name), figures=figures),
        training_section(runs) if runs and figures else None,
    ]
    sections = tuple(section for section in found if section is not None)
    if not sections:
        raise InputError(
            f"{', '.join(map(str, folders))}: no record found",
            "create one with sentemb eval sts MODEL --output FOLDER",
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


def _section(name: str, heading: str, tables: Sequence[Table]) -> Section | None:
    return Section(name, heading, tables=tuple(tables)) if tables else None


def _summary_tables(records: Sequence[Record], labels: Mapping[str, Label]) -> list[Table]:
    table = summary_table(records, labels) if records and labels else None
    return [] if table is None else [table]


def _sts_tables(records: Sequence[Record], labels: Mapping[str, Label], protocol: str | None) -> list[Table]:
    return [mark_best(label_table(sts_table(records, protocol=protocol), labels))] if records else []


def _retrieval_tables(records: Sequence[Record], labels: Mapping[str, Label]) -> list[Table]:
    protocols = sorted({record.protocol for record in records})
    return [
        mark_best(label_table(table, labels))
        for protocol in protocols
        for table in retrieval_tables([one for one in records if one.protocol == protocol])
    ]


def _transfer_tables(records: Sequence[Record], labels: Mapping[str, Label]) -> list[Table]:
    presets = sorted({record.protocol for record in records})
    tables = [mark_best(label_table(transfer_table(records, preset), labels)) for preset in presets]
    related = relatedness_table(records) if records else None
    return [table for table in (*tables, related) if table is not None and table.rows]
