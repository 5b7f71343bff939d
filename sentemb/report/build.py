"""Sections of a report from folders of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb._files import read_json
from sentemb.errors import InputError
from sentemb.evaluation.naming import check_once
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import FORMAT, Record
from sentemb.evaluation.suites import GEOMETRY, LAYERS, MULTILINGUAL, RETRIEVAL, STS, TRANSFER
from sentemb.report.analysis import geometry_section, layers_section, training_section
from sentemb.report.comparisons import compare_with_baselines, comparison_sections
from sentemb.report.labels import Label, label_table, mark_best, read_labels
from sentemb.report.page import Section
from sentemb.report.results import (
    relatedness_table,
    retrieval_tables,
    sts_table,
    summary_table,
    transfer_table,
)
from sentemb.report.table import Table

_HEADINGS = {
    "summary": "Averages",
    STS.name: "Semantic textual similarity",
    MULTILINGUAL.name: "Other languages",
    TRANSFER.name: "Transfer tasks",
    RETRIEVAL.name: "Retrieval",
}


@dataclass(frozen=True)
class Report:
    """Contents of a report."""

    sections: tuple[Section, ...]
    verdicts: tuple[str, ...]  # the sentences at the beginning, if there is a baseline


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

    `labels.toml` in a folder names its models. `runs` are folders of training runs, for learning curves.
    `progress` is called during comparisons with the baseline, the number of finished data sets, and of all.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"no such folder: {folder}", "list a folder that contains records")
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    records = _load(folders)
    suites = {name: [one for one in records if one.suite == name] for name in (GEOMETRY.name, LAYERS.name)}
    compared = (
        compare_with_baselines(records, baselines, labels, cache=cache, progress=progress)
        if baselines
        else []
    )
    differences, details = comparison_sections(compared) if compared else (None, None)
    found = [
        differences,
        *(
            Section(name, heading, tables=tables)
            for name, heading in _HEADINGS.items()
            if (tables := tuple(_tables(name, records, labels, protocol)))
        ),
        details,
        geometry_section(suites[GEOMETRY.name], runs, labels, figures=figures),
        layers_section(suites[LAYERS.name], figures=figures),
        training_section(runs) if runs and figures else None,
    ]
    sections = tuple(section for section in found if section is not None)
    if not sections:
        raise InputError(
            f"{', '.join(map(str, folders))}: no record found",
            "create one with sentemb eval sts MODEL --output FOLDER",
        )
    return Report(sections, tuple(one.verdict() for one in compared))


def _tables(
    name: str, records: Sequence[Record], labels: Mapping[str, Label], protocol: str
) -> Iterator[Table]:
    """Yield the tables of a section."""
    own = [one for one in records if one.suite == (STS.name if name == "summary" else name)]
    if not own:
        return
    if name == "summary":
        table = summary_table(own, labels)
        yield from [] if table is None else [table]
    elif name in (STS.name, MULTILINGUAL.name):
        yield _labelled(sts_table(own, protocol=protocol if name == STS.name else None), labels)
    elif name == TRANSFER.name:
        made = [_labelled(transfer_table(own, preset), labels) for preset in _protocols(own)]
        yield from (one for one in (*made, relatedness_table(own)) if one is not None and one.rows)
    else:
        for some in _protocols(own).values():
            yield from (_labelled(table, labels) for table in retrieval_tables(some))


def _labelled(table: Table, labels: Mapping[str, Label]) -> Table:
    return mark_best(label_table(table, labels))


def _protocols(records: Sequence[Record]) -> dict[str, list[Record]]:
    names = sorted({one.protocol for one in records})
    return {name: [one for one in records if one.protocol == name] for name in names}


def _load(folders: Sequence[Path]) -> list[Record]:
    """Load all records, each run once."""
    found = [
        folder
        for folder in folders
        if any(_is_record(path) for path in folder.glob("*.json") if not path.name.startswith("."))
    ]
    records = load_records(found) if found else []
    check_once([(one.model, f", suite {one.suite}, {one.protocol}", one.seed) for one in records])
    return records


def _is_record(path: Path) -> bool:
    values = read_json(path)
    return isinstance(values, dict) and values.get("format") == FORMAT
