"""`sentemb index move`: between a folder and LanceDB; and what other verbs show of an index in LanceDB."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sentemb._files import refuse_unusable_output
from sentemb._uris import without_listed_secrets
from sentemb.cli.console import next_command, progress_bar, show
from sentemb.cli.index import describe_roles

_STAGES = {
    "read": "reading documents",
    "terms": "indexing keywords",
    "train": "training the vector index",
    "encode": "copying vectors",
    "resume": "copying vectors",
    "index": "writing",
}


def move(
    source: Annotated[str, typer.Argument(help="Index to copy: a folder or lancedb:URI.")],
    to: Annotated[
        str, typer.Option(help="Target: lancedb:URI (a folder or object storage), or a new folder.")
    ],
) -> None:
    """Copy an index from a folder to LanceDB or back, without encoding again. The source is not changed."""
    from sentemb.search.address import in_lancedb
    from sentemb.search.move import move as moved

    if not in_lancedb(to):
        refuse_unusable_output(to, [source])
    with progress_bar() as bar:
        manifest = moved(
            source, to, progress=lambda stage, done, total: bar(_STAGES.get(stage, stage), done, total)
        )
    shown = without_listed_secrets(to)
    typer.echo(f"{shown}: {manifest.documents:,} documents, {manifest.vectors:,} vectors")
    next_command("index", "search", to, "your question")


def show_table(address: str, *, as_json: bool) -> None:
    """Print what is known of an index in LanceDB."""
    from sentemb.report.table import Table
    from sentemb.search.lancedb_view import open_lance_view

    view = open_lance_view(address)
    manifest, stats = view.manifest, view.table.stats()
    facts = {
        "documents": manifest.documents,
        "vectors": manifest.vectors,
        "dimension": manifest.dimension,
        "encoder": f"{manifest.encoder.name} ({manifest.encoder.fingerprint[:12]}), {manifest.metric}",
        "prompts": describe_roles(manifest.encoder),
        "language": manifest.language,
        **stats,
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    listed = {
        name: ", ".join(value)
        if isinstance(value, list)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
        for name, value in facts.items()
    }
    show(Table("", ("index", address), tuple(listed.items()), names=2))
