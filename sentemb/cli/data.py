"""`sentemb data`: which data sets are known, which are here, and are they complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.options import DataDir as DataDir

if TYPE_CHECKING:
    from sentemb.data.fetch import Count
    from sentemb.data.locate import Place

app = typer.Typer(help="Data sets: what is known, what is here.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_entries(data_dir: DataDir = None) -> None:
    """List the data sets of the catalogue and where they are."""
    from rich.console import Console
    from rich.table import Table

    from sentemb.data.catalogue import SPLITS, entries
    from sentemb.data.locate import find, resolve_data_dir

    root = resolve_data_dir(data_dir)
    table = Table(
        box=None, pad_edge=False, title=f"data folder: {root or 'none given'}", title_justify="left"
    )
    for column in ("name", "kind", "rows", "here"):
        table.add_column(column, overflow="fold", justify="right" if column == "rows" else "left")
    for entry in entries():
        rows = " / ".join(f"{entry.rows[split]:,}" for split in SPLITS if split in entry.rows)
        rows += " ..." if {*entry.splits} - {*SPLITS} else ""
        place = find(entry, root) if root else None
        table.add_row(entry.name, entry.kind, rows or "not counted", _below(place, root) if place else "no")
    Console().print(table)


@app.command()
def info(name: Annotated[str, typer.Argument(help="A name that `sentemb data list` shows.")]) -> None:
    """Show all that the catalogue knows of one data set."""
    from sentemb.data.catalogue import get
    from sentemb.data.locate import candidates

    entry = get(name)
    typer.echo(f"{entry.name}: {entry.description}")
    facts = {
        "kind": entry.kind,
        "columns": ", ".join(entry.columns),
        "classes": ", ".join(entry.labels),
        "without labels": ", ".join(entry.unlabelled),
        "rows": ", ".join(f"{split} {rows:,}" for split, rows in entry.rows.items()) or "not counted",
        "parts of test": ", ".join(f"{part} {rows:,}" for part, rows in entry.parts.items()),
        "made from": entry.derived_from or "",
        "family": entry.family or "",
        "hub": f"{entry.hub_id} at {entry.revision or 'no pinned revision'}" if entry.hub_id else "",
        "hub subset": entry.config or "",
        "hub files": ""
        if entry.config
        else ", ".join(f"{split}: {file}" for split, file in entry.files.items()),
        "looked for in": "\n".join(candidates(entry)),
        "licence": entry.licence,
        "url": entry.url or "",
    }
    for label, value in facts.items():
        if value:
            first, *rest = value.split("\n")
            typer.echo(f"{label + ':':<15} {first}")
            for line in rest:
                typer.echo(f"{'':<15} {line}")
    if entry.citation:
        typer.echo(f"\n{entry.citation}")


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(help="Names that `sentemb data list` shows, or families: sts17, sts22, ...")
    ],
    data_dir: DataDir = None,
    allow_count_mismatch: Annotated[
        bool, typer.Option("--allow-count-mismatch", help="Keep a download with missing or extra rows.")
    ] = False,
) -> None:
    """Download data sets from the hub into the data folder."""
    from sentemb.data.catalogue import expand, get
    from sentemb.data.fetch import fetch as fetch_set
    from sentemb.errors import InputError

    if data_dir is None:
        raise InputError("fetch needs a folder to put the data in", "give --data-dir or set SENTEMB_DATA")
    for name in expand(names):
        entry = get(name)
        if entry.hub_id and entry.revision is None:
            typer.echo(
                f"{name}: the catalogue pins no revision of {entry.hub_id}; taking the newest", err=True
            )
        typer.echo(f"{name}: {fetch_set(name, data_dir, check_rows=not allow_count_mismatch)}")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Data sets; all that are here by default.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Count the rows of the data sets that are here; exit code 2 where a count differs."""
    from sentemb.data.catalogue import entries, expand, get
    from sentemb.data.fetch import count
    from sentemb.data.locate import find, resolve_data_dir
    from sentemb.errors import InputError

    root = resolve_data_dir(data_dir)
    if root is None:
        raise InputError("verify needs a folder with data", "give --data-dir or set SENTEMB_DATA")
    chosen = [get(name) for name in expand(names)] if names else [e for e in entries() if find(e, root)]
    if not chosen:
        raise InputError(f"{root} holds none of the catalogue's data sets", "see `sentemb data list`")
    counts = [counted for entry in chosen for counted in count(entry, root)]
    for counted in counts:
        typer.echo(_line(counted))
    wrong = sorted({counted.name for counted in counts if counted.problem})
    if wrong:
        raise InputError(f"not as in the catalogue: {', '.join(wrong)}", "get complete copies")


def _below(place: Place, root: Path | None) -> str:
    return str(place).removeprefix(f"{root}/")


def _line(counted: Count) -> str:
    which = f"{counted.name} {counted.split}"
    if counted.problem:
        return counted.problem if counted.problem.startswith(which) else f"{which}: {counted.problem}"
    return f"{which}: {counted.rows:,} rows{'' if counted.expected else ', not counted in the catalogue'}"
