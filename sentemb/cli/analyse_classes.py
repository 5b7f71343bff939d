"""`sentemb analyse classes`: a picture of the texts of a set and the label vectors of classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentemb._files import write_bytes
from sentemb.cli.options import DataDir
from sentemb.errors import InputError


def class_map(
    classifiers: Annotated[list[Path], typer.Argument(help="Folders of classifiers, a panel for each.")],
    data: Annotated[str, typer.Option("--data", help="A labelled set, such as sst2.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture, a .png file.")],
    split: Annotated[str, typer.Option(help="Its split.")] = "dev",
    rows: Annotated[int, typer.Option(min=10, help="Draw a stratified subset of so many rows.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of the subset and of the projection.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Draw texts as dots and label vectors as stars, by t-SNE (SCL, figure 2; LaCon, figure 4)."""
    from sentemb.classification import Classifier
    from sentemb.classification.evaluator import inputs_of
    from sentemb.classification.maps import map_vectors
    from sentemb.data.labelled import load_labelled
    from sentemb.data.sampling import stratified_sample
    from sentemb.report.figures import png_of
    from sentemb.report.maps import label_map_figure

    if output.suffix != ".png":
        raise InputError(f"{output} is no .png file", "give --output NAME.png")
    whole = load_labelled(data, split=split, data_dir=data_dir)
    texts = whole.select(stratified_sample(whole.labels, min(rows, len(whole)), seed=seed))
    panels = {}
    for folder in classifiers:
        classifier = Classifier.load(folder)
        if classifier.labels != texts.label_names:
            raise InputError(
                f"{folder} names the classes {', '.join(classifier.labels[:5])}, those of {data} are "
                f"{', '.join(texts.label_names[:5])}",
                "take a set of the classifier's classes",
            )
        panels[folder.name] = map_vectors(classifier, inputs_of(texts))
    if len(panels) < len(classifiers):
        raise InputError("two folders have one name, which is the title of a panel", "rename one")
    figure = label_map_figure(panels, texts.labels.astype(int), texts.label_names, seed=seed)
    write_bytes(output, png_of(figure))
    typer.echo(str(output))
