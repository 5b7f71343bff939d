"""`sentemb analyse map` and `classes`: texts as points of a plane, a panel for each model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb._files import refuse_existing, refuse_unusable_output, write_bytes
from sentemb.cli.console import next_command
from sentemb.cli.options import DataDir, Models, OutputPicture, Overwrite, Pooling, Seed
from sentemb.errors import InputError, naming

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder

_SEEDS = 2**32  # as many as t-SNE has


def pair_map(
    models: Models,
    output: OutputPicture,
    data: Annotated[
        str, typer.Option("--data", help="Scored pairs: name of a data set, or a file.")
    ] = "stsb",
    split: Annotated[str, typer.Option(help="Split of the data set.")] = "dev",
    pairs: Annotated[
        int, typer.Option(min=1, help="Number of pairs to draw from the highest and from the lowest scores.")
    ] = 20,
    seed: Seed = 0,
    pooling: Pooling = None,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw a t-SNE map of the most and the least similar pairs (SG-BERT, figures 5 and 6)."""
    from sentemb.data.sampling import draw_extremes
    from sentemb.data.sts import load_scored_pairs
    from sentemb.report.figures import png_of
    from sentemb.report.maps import pair_map_figure

    _check(output, seed, [data, *models], overwrite=overwrite)
    scored = load_scored_pairs(data, split=split, data_dir=data_dir)
    with naming(data):
        drawn = draw_extremes(scored.gold, count=pairs, seed=seed)
    texts = [side[row] for rows in drawn for row in rows for side in (scored.first, scored.second)]
    encoders = _load_named(models, pooling=pooling)
    vectors = {name: encoder.encode(texts) for name, encoder in encoders.items()}
    write_bytes(output, png_of(pair_map_figure(vectors, positives=pairs, seed=seed)))
    typer.echo(str(output))
    next_command("eval", "geometry", *models, "--data", data, "--output", "FOLDER")


def class_map(
    classifiers: Annotated[list[Path], typer.Argument(help="Folders of classifiers. Each gets a panel.")],
    data: Annotated[str, typer.Option("--data", help="Labelled texts: name of a data set, or a file.")],
    output: OutputPicture,
    split: Annotated[str, typer.Option(help="Split of the data set.")] = "dev",
    rows: Annotated[int, typer.Option(min=10, help="Number of texts to draw, as a stratified sample.")] = 500,
    seed: Seed = 0,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw a t-SNE map of texts (dots) and label vectors (stars) (SCL, figure 2; LaCon, figure 4)."""
    from sentemb.classification.maps import map_classes
    from sentemb.data.labelled import load_labelled
    from sentemb.data.sampling import stratified_sample
    from sentemb.report.figures import png_of
    from sentemb.report.maps import label_map_figure

    _check(output, seed, [data, *classifiers], overwrite=overwrite)
    whole = load_labelled(data, split=split, data_dir=data_dir)
    texts = whole.select(stratified_sample(whole.labels, min(rows, len(whole)), seed=seed))
    panels = map_classes(classifiers, texts)
    figure = label_map_figure(panels, texts.labels.astype(int), texts.label_names, seed=seed)
    write_bytes(output, png_of(figure))
    typer.echo(str(output))
    next_command("classify", classifiers[0], "FILE", "--output", "classes.csv")


def _load_named(models: Sequence[str], *, pooling: str | None) -> dict[str, TextEncoder]:
    """Load encoders under the names that figures call them by; a pooling is for the raw ones."""
    from sentemb.encoding import load_encoder
    from sentemb.modules.source import find_source

    encoders: dict[str, TextEncoder] = {}
    for model in models:
        raw = pooling is not None and not find_source(model).has_modules
        encoder = load_encoder(model, pooling=pooling if raw else None)  # type: ignore[arg-type]
        if encoder.name in encoders:
            raise InputError(
                f"two models would both be called {encoder.name} in the figure",
                "list each model once, or rename one of the folders",
            )
        encoders[encoder.name] = encoder
    return encoders


def _check(output: Path, seed: int, inputs: Iterable[str | Path], *, overwrite: bool) -> None:
    if output.suffix != ".png":
        raise InputError(f"--output {output} is not a .png file", "write --output NAME.png")
    if seed >= _SEEDS:
        raise InputError(f"--seed {seed} is too large for t-SNE", "choose a seed below 2**32")
    refuse_unusable_output(output, inputs)
    refuse_existing(output, overwrite=overwrite)
