"""`sentemb index upgrade`: another encoder for an index that is there."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sentemb.cli.console import next_command, progress_bar, say
from sentemb.cli.index import IndexFolder, NewBudget, NewKind, by_stage, show_facts
from sentemb.cli.options import EncoderOptions, grouped


@grouped
def upgrade(
    folder: IndexFolder,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="New model: folder, hub id, bundled model or word-vector file."),
    ],
    options: EncoderOptions,
    truncate: Annotated[
        Literal["split", "warn", "error"] | None,
        typer.Option(
            help="Texts longer than the model's maximum length: split them into chunks, truncate them with a "
            "warning, or stop with an error. The default is the setting of the build."
        ),
    ] = None,
    kind: NewKind = None,
    memory_budget: NewBudget = None,
) -> None:
    """Change the model of an index. Run the same command again to resume an interrupted upgrade."""
    from sentemb.encoding import EncoderSpec
    from sentemb.search import SearchIndex
    from sentemb.search.folder import read_manifest, work_folder
    from sentemb.search.plan import parse_bytes

    budget = None if memory_budget is None else parse_bytes(memory_budget)
    before = read_manifest(folder)  # before the model is loaded: a wrong folder must not cost a minute
    path = folder.absolute()
    with work_folder(path.parent / f".{path.name}.upgrading", announce=say) as work_dir:
        source = EncoderSpec(model, options.pooling, options.precision, options.max_length)
        encoder = source.load(device=options.device, cache_dir=options.cache_dir, data_dir=options.data_dir)
        with progress_bar() as bar:
            index = SearchIndex.upgrade(
                folder,
                encoder,
                source=source,
                truncate=truncate,
                kind=kind,
                memory_budget=budget,
                work_dir=work_dir,
                progress=by_stage(bar),
            )
    manifest = index.manifest
    if manifest.encoder.fingerprint == before.encoder.fingerprint:
        typer.echo(f"{folder} already uses this encoder, {manifest.encoder.name}; nothing was changed")
    else:
        typer.echo(
            f"the documents are now encoded with {manifest.encoder.name} instead of {before.encoder.name}"
        )
        show_facts(folder, manifest)
    next_command("index", "search", folder, "your question")
