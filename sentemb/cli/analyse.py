"""`sentemb analyse`: look into encoders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.options import DataDir

if TYPE_CHECKING:
    from sentemb.evaluation.layers import LayerMap

app = typer.Typer(help="Look into encoders.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def layers(
    model: Annotated[str, typer.Argument(help="Folder, hub id or name of a bundled model.")],
    sets: Annotated[str, typer.Option(help="Some of sts12,...,sts16,stsb,sickr,sickr-mteb.")] = "stsb",
    split: Annotated[Literal["test", "dev", "train"], typer.Option(help="Split of the sets.")] = "test",
    poolings: Annotated[str, typer.Option(help="Some of cls,mean,max,lasttoken,...")] = "cls,mean,max",
    data_dir: DataDir = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the record and the figure.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Longest input in tokens.")] = None,
    device: Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")] = None,
    allow_count_mismatch: Annotated[
        bool, typer.Option("--allow-count-mismatch", help="Score sets with missing or extra rows.")
    ] = False,
) -> None:
    """Score every layer under every pooling, from one forward pass (SG-BERT, figure 1)."""
    from sentemb.evaluation.layers import layer_map
    from sentemb.evaluation.record import prepare_folder

    if output is not None:
        prepare_folder(output)
    found = layer_map(
        model,
        _names(sets),
        split=split,
        poolings=_names(poolings),
        data_dir=data_dir,
        device=device,
        max_length=max_length,
        check_rows=not allow_count_mismatch,
    )
    for scores in found.sets:
        typer.echo(scores.table().markdown())
    typer.echo(f"{found.unique:,} different sentences encoded and scored in {found.seconds:.1f} s", err=True)
    if output is not None:
        _write(found, output, split)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")]


def _write(found: LayerMap, folder: Path, split: str) -> None:
    from sentemb._files import write_bytes, write_json
    from sentemb.evaluation.environment import command_line
    from sentemb.evaluation.record import slug
    from sentemb.report.curves import layer_figure
    from sentemb.report.figures import png_of

    stem = f"{slug(found.model)}.layers.{split}"
    panels = {f"{scores.name} {scores.split}": scores.spearman for scores in found.sets}
    write_json(folder / f"{stem}.json", found.record(command=command_line()))
    write_bytes(folder / f"{stem}.png", png_of(layer_figure(panels, title=found.model)))
    typer.echo(f"{folder}: {stem}.json, {stem}.png")
