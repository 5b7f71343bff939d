"""`sentemb quickstart`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.quickstart import Quickstart


def quickstart(
    base: Annotated[
        str, typer.Option(help="Raw transformer: folder, hub id or bundled model.")
    ] = "bert-mini",
    data: Annotated[
        str | None,
        typer.Option(help="Your own sentences: .txt .csv .tsv .jsonl .parquet; the bundled ones by default."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Text column, where the data has several.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")] = Path("quickstart"),
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier quickstart.")] = False,
) -> None:
    """Train, judge and search in minutes, without a download."""
    _check_room(output, overwrite=overwrite)

    from rich.console import Console

    from sentemb.quickstart import check_inputs, run_quickstart
    from sentemb.training.progress import ConsoleProgress

    check_inputs(base, output, data=data, column=column)
    if output.exists():
        shutil.rmtree(output)
    progress = ConsoleProgress(Console(stderr=True))
    _print(run_quickstart(base, output, data=data, column=column, seed=seed, progress=progress))


def _check_room(output: Path, *, overwrite: bool) -> None:
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    finished = (output / "index.html").exists()  # it is written last
    if not finished and not (output / "model" / "run").exists():
        raise InputError(f"{output} already exists and holds no quickstart", "choose another --output")
    if not overwrite:
        state = "an earlier quickstart" if finished else "a quickstart that was interrupted"
        raise InputError(f"{output} holds {state}", "choose another --output or add --overwrite")


def _print(made: Quickstart) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("encoder", "pooling"):
        table.add_column(name)
    table.add_column("Spearman x 100", justify="right")
    for score in made.scores:
        table.add_row(score.encoder, score.pooling, f"{score.spearman:.2f}")
    console.print(table)
    for query, hits in made.hits.items():
        console.print(f"\n{query}", markup=False, highlight=False)
        for hit in hits:
            line = f"  {hit.score:.3f}  {hit.id}: {hit.text}"
            console.print(line, markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
    console.print(
        f"\nmodel  {made.model}\nindex  {made.index}\npage   {made.page}", markup=False, highlight=False
    )
