"""`sentemb index move`: between a folder and LanceDB; and what other verbs show of an index in LanceDB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb._files import refuse_unusable_output
from sentemb._uris import without_listed_secrets
from sentemb.cli.console import next_command, progress_bar, show
from sentemb.cli.index import describe_roles, is_in_lancedb

if TYPE_CHECKING:
    from sentemb.search import SearchIndex

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
    from sentemb.search.move import move as moved

    if not is_in_lancedb(to):
        refuse_unusable_output(to, [source])
    with progress_bar() as bar:
        manifest = moved(
            source, to, progress=lambda stage, done, total: bar(_STAGES.get(stage, stage), done, total)
        )
    shown = without_listed_secrets(to)
    typer.echo(f"{shown}: {manifest.documents:,} documents, {manifest.vectors:,} vectors")
    next_command("index", "search", to, "your question")


def show_table(index: SearchIndex, *, as_json: bool) -> None:
    """Print what is known of an index in LanceDB."""
    from sentemb.report.table import Table

    manifest = index.manifest
    facts = {
        "documents": manifest.documents,
        "vectors": manifest.vectors,
        "dimension": manifest.dimension,
        "encoder": f"{manifest.encoder.name} ({manifest.encoder.fingerprint[:12]}), {manifest.metric}",
        "prompts": describe_roles(manifest.encoder),
        "language": manifest.language,
        **index.info(),
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
    show(Table("", ("index", index.store.address), tuple(listed.items()), names=2))
