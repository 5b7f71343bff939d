"""`sentemb analyse geometry`: how the vectors of encoders lie, and how training moved them, as figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.console import next_command
from sentemb.cli.options import OutputFolder
from sentemb.errors import InputError


def geometry(
    folders: Annotated[list[Path], typer.Argument(help="Folders with records of `sentemb eval geometry`.")],
    output: OutputFolder,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            help="Draw alignment and uniformity over the training steps of this run (a folder of `sentemb "
            "train`). For several seeds, draw their mean. Repeat for several runs.",
        ),
    ] = None,
) -> None:
    """Draw alignment over uniformity, optionally with training paths, and the spectra of encoders.

    Writes two figures per data set of the records. --run needs a geometry record of the run's model on its
    dev set.
    """
    from sentemb._files import check_writable, write_bytes
    from sentemb.evaluation.naming import slug
    from sentemb.evaluation.record import load_records
    from sentemb.evaluation.suites import GEOMETRY
    from sentemb.report.figures import png_of
    from sentemb.report.geometry import by_pairs, geometry_figures, read_training_path, shown_name
    from sentemb.report.labels import read_labels

    groups = by_pairs(load_records(folders, suite=GEOMETRY.name))
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    paths = []
    for folder in run or ():
        path = read_training_path(folder)
        if path is None:
            raise InputError(
                f"{folder} does not contain a training run with a dev set",
                "name an output folder of `sentemb train`",
            )
        there = {shown_name(one.model, labels) for some in groups for one in some if path.is_on(one)}
        if shown_name(path.name, labels) not in there:
            raise InputError(
                f"{path.name} does not have a geometry record on its dev set, {path.dev}",
                f"write one with `sentemb eval geometry {folder} --data SET --output FOLDER`",
            )
        paths.append(path)
    check_writable(output)
    for some in groups:
        for what, figure in zip(
            ("alignment-uniformity", "spectrum"), geometry_figures(some, labels, paths), strict=True
        ):
            picture = output / f"{slug(some[0].protocol)}.{what}.png"
            write_bytes(picture, png_of(figure))
            typer.echo(str(picture))
    next_command("report", *folders, "-o", "report.html")
