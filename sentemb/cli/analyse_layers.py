"""`sentemb analyse layers`: what the layers of an encoder know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sentemb.cli.console import next_step, say, show
from sentemb.cli.options import AllowCountMismatch, DataDir, Device, MaxLength, Model, Output, split_names


def layers(
    model: Model,
    sets: Annotated[str, typer.Option(help="Some of sts12,...,sts16,stsb,sickr,sickr-mteb.")] = "stsb",
    split: Annotated[Literal["test", "dev", "train"], typer.Option(help="Split of the sets.")] = "test",
    poolings: Annotated[str, typer.Option(help="Some of cls,mean,max,lasttoken,...")] = "cls,mean,max",
    data_dir: DataDir = None,
    output: Output = None,
    max_length: MaxLength = None,
    device: Device = None,
    allow_count_mismatch: AllowCountMismatch = False,
) -> None:
    """Score every layer under every pooling, from one forward pass (SG-BERT, figure 1)."""
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.layers import layer_map
    from sentemb.evaluation.record import prepare_folder
    from sentemb.report.analyses import LayerMapFile

    if output is not None:
        prepare_folder(output)
    found = layer_map(
        model,
        split_names(sets),
        split=split,
        poolings=split_names(poolings),
        data_dir=data_dir,
        device=device,
        max_length=max_length,
        check_rows=not allow_count_mismatch,
    )
    measured = found.record(command=command_line())
    for scores in LayerMapFile.model_validate(measured).sets:
        show(scores.table())
    say(f"{found.unique:,} unique sentences encoded and scored in {found.seconds:.1f} s")
    if output is None:
        next_step("the same command with --output FOLDER draws the figure")
    else:
        _write(output, split, measured)
        next_step(f"sentemb report {output}")


def _write(folder: Path, split: str, measured: dict[str, Any]) -> None:
    from sentemb._files import write_bytes, write_json
    from sentemb.evaluation.naming import slug
    from sentemb.report.curves import layer_figure
    from sentemb.report.figures import png_of

    stem = f"{slug(measured['model'])}.layers.{split}"
    panels = {f"{one['name']} {one['split']}": one["spearman"] for one in measured["sets"]}
    write_json(folder / f"{stem}.json", measured)
    write_bytes(folder / f"{stem}.png", png_of(layer_figure(panels, title=measured["model"])))
    typer.echo(f"{folder}: {stem}.json, {stem}.png")
