"""`sentemb analyse map`: pairs of one meaning and of none as maps, an encoder beside another."""

from __future__ import annotations

from typing import Annotated

import typer

from sentemb.cli.analyse_encoders import load_named
from sentemb.cli.console import next_step
from sentemb.cli.options import DataDir, Models, OutputPicture, Pooling, Seed
from sentemb.errors import InputError


def pair_map(
    models: Models,
    output: OutputPicture,
    data: Annotated[str, typer.Option("--data", help="Scored pairs: a set's name or a file.")] = "stsb",
    split: Annotated[str, typer.Option(help="The set's split.")] = "dev",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of the highest and of the lowest scores.")] = 20,
    seed: Seed = 0,
    pooling: Pooling = None,
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
    if seed >= 2**32:
        raise InputError(f"--seed {seed} is too large for t-SNE", "give a number below 2**32")
    scored = load_scored_pairs(data, split=split, data_dir=data_dir)
    drawn = draw_extremes(scored.gold, count=pairs, seed=seed)
    texts = [side[row] for rows in drawn for row in rows for side in (scored.first, scored.second)]
    encoders = load_named(models, pooling=pooling)
    vectors = {name: encoder.encode(texts) for name, encoder in encoders.items()}
    write_bytes(output, png_of(pair_map_figure(vectors, positives=pairs, seed=seed)))
    typer.echo(str(output))
    next_step(f"sentemb analyse geometry {' '.join(models)} --data {data} --output FOLDER")
