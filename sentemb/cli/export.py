"""`sentemb export`: records as result files of MTEB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_command, say
from sentemb.cli.options import OutputFolder
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.evaluation.schema import Record


def export(
    records: Annotated[list[Path], typer.Argument(help="Record files, or folders with records.")],
    output: OutputFolder,
    format: Annotated[
        Literal["mteb"], typer.Option(help="Output format. mteb: result files of MTEB 2.")
    ] = "mteb",
    model_name: Annotated[
        str | None,
        typer.Option(help="Name of the model as organization/model. Requires records of a single model."),
    ] = None,
) -> None:
    """Convert result records to the format of another program."""
    from sentemb._files import check_writable
    from sentemb.evaluation.record import load_records

    found = load_records(records)
    if model_name is not None and len({record.fingerprint for record in found}) > 1:
        raise InputError(
            "--model-name works with a single model, but the records are of several",
            "export one model at a time",
        )
    check_writable(output)
    for record in found:
        export_record(record, output, model_name)
    next_command("card", "MODEL", "--records", records[0])


def export_record(record: Record, folder: Path, model_name: str | None = None) -> None:
    """Write the result files of a record, and say what MTEB has no task for."""
    from sentemb.evaluation.mteb import export_mteb, has_tasks

    if not has_tasks(record):
        names = ", ".join(one.name for one in record.datasets)
        say(f"  not exported: {record.suite} of {record.model} ({names}): MTEB does not have this task")
        return
    exported = export_mteb(record, folder, model_name=model_name)
    for path in exported.files:
        say(f"  {path}")
    for reason in exported.skipped.values():
        say(f"  not exported: {reason}")
