"""Result records on disk: one JSON file per model, suite, protocol and seed, the predictions beside it."""

from __future__ import annotations

from pathlib import Path

from sentemb.errors import InputError
from sentemb.evaluation.record_files import prepare_folder, record_paths, write_with_predictions
from sentemb.evaluation.record_format import (
    predictions_to_tensors,
    read_fingerprint,
    read_record,
    record_to_json,
)
from sentemb.evaluation.result import ResultRecord, record_of
from sentemb.evaluation.suites import STS, Suite

__all__ = [
    "ResultRecord",
    "check_free",
    "prepare_folder",
    "read_record",
    "read_records",
    "record_of",
    "write_record",
]


def write_record(record: ResultRecord, folder: Path, *, overwrite: bool = False) -> Path:
    """Write a record and its predictions."""
    path = folder / record.file_name
    check_free(path, record.fingerprint, overwrite=overwrite)
    write_with_predictions(path, record_to_json(record), predictions_to_tensors(record))
    return path


def check_free(path: Path, fingerprint: str, *, overwrite: bool) -> None:
    """Check that a record may be written to a place."""
    if not path.exists():
        return
    other = read_fingerprint(path)
    if other != fingerprint:
        raise InputError(
            f"{path} is the record of another model (fingerprint {other[:12]}, not {fingerprint[:12]})",
            "choose another output folder",
        )
    if not overwrite:
        raise InputError(f"{path} is already there", "add --overwrite (overwrite=True) to replace it")


def read_records(folder: Path, *, suite: Suite = STS) -> list[ResultRecord]:
    """Read every STS record of a folder, which may hold records of other suites too.

    Args:
        folder: The folder.
        suite: The suite of the records.

    Returns:
        The records, by file name.

    Raises:
        InputError: The folder is absent, holds no such record, or one is not sound.
    """
    which = "" if suite is STS else f" --suite {suite.name}"
    paths = record_paths(
        folder,
        f"*.{suite.name}.*.json",
        what=f"record of the suite {suite.name}",
        maker=f"sentemb eval sts MODEL{which} --output FOLDER",
    )
    return [read_record(path) for path in paths]
