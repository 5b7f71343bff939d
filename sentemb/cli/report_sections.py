"""The sections of `sentemb report`: records are read and tables made by the rooms that know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sentemb.cli.report_comparisons import comparison_sections
from sentemb.cli.report_geometry import geometry_section
from sentemb.cli.report_layers import layers_section, training_section
from sentemb.errors import InputError
from sentemb.evaluation.naming import check_once
from sentemb.evaluation.records import read_records
from sentemb.evaluation.seed_table import seed_table
from sentemb.evaluation.suites import MULTILINGUAL, STS, Suite
from sentemb.evaluation.transfer.presets import PRESETS
from sentemb.evaluation.transfer.records import read_transfers
from sentemb.evaluation.transfer.table import transfer_seed_table
from sentemb.report.labels import Label, label_table, mark_best, read_labels
from sentemb.report.sections import Section

if TYPE_CHECKING:
    from sentemb.evaluation.measures import Protocol
    from sentemb.evaluation.result import ResultRecord
    from sentemb.evaluation.transfer import TransferReport

_SUITES = {STS: "Semantic textual similarity", MULTILINGUAL: "Other languages"}


def gather(
    folders: Sequence[Path],
    *,
    runs: Sequence[Path] = (),
    protocol: Protocol = "all",
    baselines: Sequence[str] = (),
    figures: bool = False,
) -> list[Section]:
    """Read all records of some folders and make the sections of a report."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"no such folder: {folder}", "name a folder that holds records")
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    records = {suite: _records(folders, suite) for suite in _SUITES}
    reports = [one for folder in _holding(folders, "transfer") for one in read_transfers(folder)]
    check_once([(one.model, f", preset {one.preset}", one.seed) for one in reports])
    found = [
        _sts_section(STS, records[STS], labels, protocol),
        _sts_section(MULTILINGUAL, records[MULTILINGUAL], labels, MULTILINGUAL.protocol),
        _transfer_section(reports, labels) if reports else None,
        *comparison_sections(records, reports, baselines, labels),
        geometry_section(folders, labels, figures=figures),
        layers_section(folders, figures=figures),
        training_section(runs) if runs and figures else None,
    ]
    sections = [section for section in found if section is not None]
    if not sections:
        raise InputError(
            f"{', '.join(map(str, folders))}: no record to report",
            "sentemb eval sts MODEL --output FOLDER writes one",
        )
    return sections


def _holding(folders: Sequence[Path], suite: str) -> list[Path]:
    return [folder for folder in folders if any(folder.glob(f"*.{suite}.*.json"))]


def _records(folders: Sequence[Path], suite: Suite) -> list[ResultRecord]:
    found = [one for folder in _holding(folders, suite.name) for one in read_records(folder, suite=suite)]
    check_once([(one.model, f", suite {suite.name}", one.seed) for one in found])
    return found


def _sts_section(
    suite: Suite, records: Sequence[ResultRecord], labels: Mapping[str, Label], protocol: Protocol
) -> Section | None:
    if not records:
        return None
    table = mark_best(label_table(seed_table(records, protocol, measure=suite.measure), labels))
    return Section(suite.name, _SUITES[suite], tables=(table,))


def _transfer_section(reports: Sequence[TransferReport], labels: Mapping[str, Label]) -> Section:
    presets = [preset for preset in PRESETS if any(one.preset == preset for one in reports)]
    tables = tuple(mark_best(label_table(transfer_seed_table(reports, preset), labels)) for preset in presets)
    return Section("transfer", "Transfer tasks", tables=tables)
