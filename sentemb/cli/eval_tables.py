"""`sentemb eval tables`: the tables of studies on labelled texts, made anew of their records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb._files import write_bytes

if TYPE_CHECKING:
    from sentemb.evaluation.classification.protocols import Protocol

Baseline = Annotated[str, typer.Option(help="The method that others are compared with.")]
Best = Annotated[int | None, typer.Option(min=1, help="Report so many runs, the best by validation.")]
Figures = Annotated[bool, typer.Option("--figures", help="Draw scores against the values.")]


def tables(
    folder: Annotated[Path, typer.Argument(help="Folder with the records of `sentemb eval classify`.")],
    baseline: Baseline = "ce",
    best: Best = None,
    figures: Figures = False,
) -> None:
    """Make the tables of all experiments in a folder anew, without training anything."""
    from sentemb.evaluation.classification import read_cells
    from sentemb.evaluation.classification.protocols import PROTOCOLS, experiments_of, write_tables

    records = read_cells([folder])
    for name in experiments_of(records):
        experiment = PROTOCOLS[name]()
        experiment = replace(experiment, best=best or experiment.best)
        path = write_tables(experiment, records, folder, baseline=baseline)
        typer.echo(path.read_text(encoding="utf-8"))
        if figures:
            draw(experiment, folder)


def draw(protocol: Protocol, folder: Path) -> None:
    """Draw the scores of an experiment against its values, a picture for each set."""
    from sentemb.evaluation.classification import curves, read_cells, summarize
    from sentemb.evaluation.classification.tables import METRIC_NAMES, figure_name
    from sentemb.evaluation.record_files import slug
    from sentemb.report.curves import band_figure
    from sentemb.report.figures import png_of

    records = protocol.own(read_cells([folder]))
    metrics = {record.cell.data: METRIC_NAMES[record.cell.metric] for record in records}
    axis = figure_name(next(iter(record.cell.point for record in records if record.cell.point.value)))
    for data, lines in curves(summarize(records, best=protocol.best)).items():
        figure = band_figure(lines, x_label=axis, y_label=f"{data}, {metrics[data]} x 100")
        path = folder / f"{protocol.name}.{slug(data)}.png"
        write_bytes(path, png_of(figure))
        typer.echo(str(path), err=True)
