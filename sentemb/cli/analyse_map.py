"""`sentemb analyse map`: pairs of one meaning and of none as maps, an encoder beside another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sentemb.cli.analyse_encoders import load_named
from sentemb.cli.options import DataDir
from sentemb.errors import InputError


def pair_map(
    models: Annotated[list[str], typer.Argument(help="Encoders, a panel for each: before, after, ...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture, a .png file.")],
    data: Annotated[str, typer.Option("--data", help="Scored pairs: a set's name or a file.")] = "stsb",
    split: Annotated[str, typer.Option(help="The set's split.")] = "dev",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of the highest and of the lowest scores.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of pairs and of the projection.")] = 0,
    pooling: Annotated[str | None, typer.Option(help="For raw transformers: cls, mean, ...")] = None,
    data_dir: DataDir = None,
) -> None:
    """Map the most and the least similar pairs to the plane by t-SNE (SG-BERT, figures 5 and 6)."""
    from sentemb._files import write_bytes
    from sentemb.data.extremes import draw_extremes
    from sentemb.data.sts import load_scored_pairs
    from sentemb.report.figures import png_of
    from sentemb.report.maps import pair_map_figure

    if output.suffix != ".png":
        raise InputError(f"{output} is no .png file", "give --output NAME.png")
    scored = load_scored_pairs(data, split=split, data_dir=data_dir)
    drawn = draw_extremes(scored.gold, count=pairs, seed=seed)
    texts = [side[row] for rows in drawn for row in rows for side in (scored.first, scored.second)]
    encoders = load_named(models, pooling=pooling)
    vectors = {name: encoder.encode(texts) for name, encoder in encoders.items()}
    write_bytes(output, png_of(pair_map_figure(vectors, positives=pairs, seed=seed)))
    typer.echo(str(output))
