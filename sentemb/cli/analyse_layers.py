"""`sentemb analyse layers`: what the layers of an encoder know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_command, next_step, say, show
from sentemb.cli.options import (
    AllowCountMismatch,
    DataDir,
    Device,
    MaxLength,
    Model,
    Output,
    Overwrite,
    split_names,
)

if TYPE_CHECKING:
    from sentemb.evaluation.schema import Record


def layers(
    model: Model,
    sets: Annotated[
        str, typer.Option(help="STS sets, separated by commas: sts12 to sts16, stsb, sickr, sickr-mteb.")
    ] = "stsb",
    split: Annotated[
        Literal["test", "dev", "train"], typer.Option(help="Split of the sets to score.")
    ] = "test",
    poolings: Annotated[
        str, typer.Option(help="Poolings, separated by commas: cls, mean, max, lasttoken, ...")
    ] = "cls,mean,max",
    data_dir: DataDir = None,
    output: Output = None,
    max_length: MaxLength = None,
    device: Device = None,
    overwrite: Overwrite = False,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Score every layer with every pooling in one forward pass (SG-BERT, figure 1)."""
    from sentemb._files import check_writable
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.layers import evaluate_layers
    from sentemb.report.layers import layer_tables

    if output is not None:
        check_writable(output)
    record = evaluate_layers(
        model,
        split_names(sets),
        split=split,
        poolings=split_names(poolings),
        data_dir=data_dir,
        device=device,
        max_length=max_length,
        check_rows=not allow_count_mismatch,
        folder=output,
        overwrite=overwrite,
        command=command_line(),
    )
    for table in layer_tables(record):
        show(table)
    seconds = record.environment.seconds["layers"]
    say(f"{record.details['unique']:,} unique sentences encoded and scored in {seconds:.1f} s")
    if output is None:
        next_step("run the command again with --output FOLDER to save the record and draw the figure")
    else:
        _draw(record, output)
        next_command("report", output)


def _draw(record: Record, folder: Path) -> None:
    from sentemb._files import write_bytes
    from sentemb.report.figures import png_of
    from sentemb.report.layers import layer_record_figure

    picture = Path(record.file_name).with_suffix(".png").name
    write_bytes(folder / picture, png_of(layer_record_figure(record)[0]))
    typer.echo(f"{folder}: {record.file_name}, {picture}")
