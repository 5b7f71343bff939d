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
    data: Annotated[str | None, typer.Option(help="Your own sentences; the bundled ones by default.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")] = Path("quickstart"),
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier quickstart.")] = False,
) -> None:
    """Train, judge and search in minutes, without a download."""
    _make_room(output, overwrite=overwrite)

    from rich.console import Console

    from sentemb.quickstart import run_quickstart
    from sentemb.training.progress import ConsoleProgress

    console = Console(stderr=True)
    made = run_quickstart(base, output, data=data, seed=seed, progress=ConsoleProgress(console))
    _print(made)


def _make_room(output: Path, *, overwrite: bool) -> None:
    if not output.exists():
        return
    earlier = (output / "index.html").exists() or (output / "model" / "run").exists()
    if output.is_dir() and not any(output.iterdir()):
        return
    if not earlier:
        raise InputError(f"{output} already exists and holds no quickstart", "choose another --output")
    if not overwrite:
        raise InputError(
            f"{output} holds an earlier quickstart", "choose another --output or add --overwrite"
        )
    shutil.rmtree(output)


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
