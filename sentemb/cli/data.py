"""`sentemb data list`, `info`, `fetch` and `verify`: which sets are known, which are here and complete."""

from __future__ import annotations

from typing import Annotated

import typer

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, say, show
from sentemb.errors import InputError

_UNSET = ("the data folder is not set", "pass --data-dir FOLDER or set SENTEMB_DATA")


def list_entries(data_dir: opt.DataDir = None) -> None:
    """List the data sets of the catalogue and their location."""
    from sentemb.data.catalogue import SPLITS, entries
    from sentemb.data.locate import find, resolve_data_dir
    from sentemb.report.table import Table

    root = resolve_data_dir(data_dir)
    table = []
    for entry in entries():
        rows = " / ".join(f"{entry.rows[split]:,}" for split in SPLITS if split in entry.rows)
        rows += " ..." if {*entry.splits} - {*SPLITS} else ""
        place = find(entry, root) if root else None
        here = str(place).removeprefix(f"{root}/") if place else "no"
        table.append((entry.name, entry.kind, here, rows or "not counted"))
    title = f"Data sets (data folder: {root or 'not set'})"
    show(Table(title, ("name", "kind", "here", "rows"), tuple(table), names=3))


def info(name: Annotated[str, typer.Argument(help="Name of a data set, as in `sentemb data list`.")]) -> None:
    """Show the details of one data set: columns, rows, files, license and source."""
    from sentemb.data.catalogue import get
    from sentemb.data.locate import candidates

    entry = get(name)
    typer.echo(f"{entry.name}: {entry.description}")
    files = "" if entry.config else ", ".join(f"{split}: {file}" for split, file in entry.files.items())
    facts = {
        "kind": entry.kind,
        "columns": ", ".join(entry.columns),
        "classes": ", ".join(entry.labels),
        "without labels": ", ".join(entry.unlabelled),
        "rows": ", ".join(f"{split} {rows:,}" for split, rows in entry.rows.items()) or "unknown",
        "documents": entry.documents and f"{entry.documents:,}",
        "parts of test": ", ".join(f"{part} {rows:,}" for part, rows in entry.parts.items()),
        "made from": entry.derived_from,
        "family": entry.family,
        "hub": entry.hub_id and f"{entry.hub_id} at {entry.revision or 'no pinned revision'}",
        "hub subset": entry.config,
        "hub files": files,
        "searched in": f"\n{'':<16}".join(candidates(entry)),
        "licence": entry.licence,
        "url": entry.url,
    }
    for label, value in facts.items():
        if value:
            typer.echo(f"{label + ':':<15} {value}")
    if entry.citation:
        typer.echo(f"\n{entry.citation}")


_FETCHED = "Names of data sets as in `sentemb data list`, or of families: sts17, sts22, ..."
_VERIFIED = "Names of data sets. The default is all in the data folder."


def fetch(
    names: Annotated[list[str], typer.Argument(help=_FETCHED)],
    data_dir: opt.DataDir = None,
    allow_count_mismatch: opt.AllowCountMismatch = False,
) -> None:
    """Download data sets from the hub into the data folder."""
    from sentemb.data.catalogue import expand, get
    from sentemb.data.fetch import fetch as fetch_set

    if data_dir is None:
        raise InputError(*_UNSET)
    for name in expand(names):
        entry = get(name)
        if entry.hub_id and entry.revision is None:
            say(f"{name}: the catalogue does not pin a revision of {entry.hub_id}; downloading the newest")
        typer.echo(f"{name}: {fetch_set(name, data_dir, check_rows=not allow_count_mismatch)}")
    next_command("data", "verify", *names, "--data-dir", data_dir)


def verify(
    names: Annotated[list[str] | None, typer.Argument(help=_VERIFIED)] = None, data_dir: opt.DataDir = None
) -> None:
    """Check the row counts of the data sets in the data folder. Exits with 2 if a count differs."""
    from sentemb.data.catalogue import entries, expand, get
    from sentemb.data.fetch import count
    from sentemb.data.locate import find, resolve_data_dir

    root = resolve_data_dir(data_dir)
    if root is None:
        raise InputError(*_UNSET)
    chosen = [get(name) for name in expand(names)] if names else [e for e in entries() if find(e, root)]
    if not chosen:
        hint = "download one with `sentemb data fetch NAME`"
        raise InputError(f"{root} does not contain any data set of the catalogue", hint)
    counts = [counted for entry in chosen for counted in count(entry, root)]
    for counted in counts:
        typer.echo(str(counted))
    if wrong := sorted({counted.name for counted in counts if counted.problem}):
        hint = "download complete copies with `sentemb data fetch`"
        raise InputError(f"row counts differ from the catalogue: {', '.join(wrong)}", hint)
