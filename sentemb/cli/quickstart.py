"""`sentemb quickstart`: the whole idea in minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.console import next_step, printable, show
from sentemb.cli.options import OutputFolder, Overwrite, Seed
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.quickstart import Quickstart

# Written first, so that nothing is ever removed from a folder that somebody else made.
MARKER = ".sentemb-quickstart"
MADE = ("model", "index", "index.html")


def quickstart(
    base: Annotated[
        str, typer.Option(help="Raw transformer: folder, hub id or bundled model.")
    ] = "bert-mini",
    data: Annotated[
        str | None,
        typer.Option(help="Your own sentences: .txt .csv .tsv .jsonl .parquet; the bundled ones by default."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Text column, where the data has several.")] = None,
    output: OutputFolder = Path("quickstart"),
    seed: Seed = 1,
    overwrite: Overwrite = False,
) -> None:
    """Train, evaluate and search in minutes, without a download."""
    _check_output(output, data, overwrite=overwrite)

    from rich.console import Console

    from sentemb.quickstart import check_inputs, run_quickstart
    from sentemb.training.progress import ConsoleProgress

    check_inputs(base, output, data=data, column=column)
    _clear(output)
    progress = ConsoleProgress(Console(stderr=True))
    _print(run_quickstart(base, output, data=data, column=column, seed=seed, progress=progress))


def _check_output(output: Path, data: str | None, *, overwrite: bool) -> None:
    if data is not None and any(
        Path(data).resolve().is_relative_to((output / name).resolve()) for name in MADE
    ):
        raise InputError(f"{data} lies where the quickstart writes", "choose another --output")
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / MARKER).is_file():
        raise InputError(f"{output} already exists and holds no quickstart", "choose another --output")
    if not overwrite:
        finished = (output / "index.html").exists()  # it is written last
        state = "an earlier quickstart" if finished else "a quickstart that was interrupted"
        raise InputError(f"{output} holds {state}", "choose another --output or add --overwrite")


def _clear(output: Path) -> None:
    """Remove what an earlier quickstart made, and nothing else."""
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).touch()
    for name in MADE:
        path = output / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _print(made: Quickstart) -> None:
    from sentemb.report.table import Table

    rows = tuple((one.encoder, one.pooling, f"{one.spearman:.2f}") for one in made.scores)
    show(Table("Before and after", ("encoder", "pooling", "Spearman x 100"), rows, names=2))
    for query, hits in made.hits.items():
        typer.echo(f"\n{query}")
        for hit in hits:
            typer.echo(printable(f"  {hit.score:.3f}  {hit.id}: {' '.join(hit.text.split())}")[:110])
    typer.echo(f"\nmodel  {made.model}\nindex  {made.index}\npage   {made.page}")
    next_step(f'sentemb index search {made.index} "..."')
