"""`sentemb index upgrade`: another encoder for an index that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_command, progress_bar, say, show
from sentemb.cli.index import IndexFolder, NewBudget, NewKind, by_stage, show_facts
from sentemb.cli.options import EncoderOptions, grouped
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.search.source import EncoderSource
    from sentemb.search.upgrade import Upgraded


@grouped
def upgrade(
    folder: IndexFolder,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="New model: folder, hub id, bundled model or word-vector file."),
    ],
    options: EncoderOptions,
    adapter: Annotated[
        bool,
        typer.Option(
            "--adapter",
            help="Keep the documents' vectors and map query vectors to them, instead of encoding the "
            "documents again.",
        ),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(help="Number of texts from which --adapter learns the map. The default is 5000."),
    ] = None,
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
    from sentemb.search.manifest import Manifest
    from sentemb.search.plan import parse_bytes
    from sentemb.search.work import work_folder

    if adapter and (kind or memory_budget or truncate):
        raise InputError(
            "--adapter does not change the documents' vectors",
            "remove --kind, --memory-budget and --truncate",
        )
    if sample is not None and not adapter:
        raise InputError("--sample works only with --adapter", "pass both or neither")
    budget = None if memory_budget is None else parse_bytes(memory_budget)
    before = Manifest.read(folder)  # before the model is loaded: a wrong folder must not cost a minute
    path = folder.absolute()
    with work_folder(path.parent / f".{path.name}.upgrading", announce=say) as work_dir:
        from sentemb.search.encoders import facts_of
        from sentemb.search.source import EncoderSource
        from sentemb.search.upgrade import SAMPLE
        from sentemb.search.upgrade import upgrade as upgraded

        source = EncoderSource(model, options.pooling, options.precision, options.max_length)
        encoder = source.load(device=options.device, cache_dir=options.cache_dir, data_dir=options.data_dir)
        with progress_bar() as bar:
            done = upgraded(
                folder,
                encoder,
                facts_of(encoder, model, source),
                work_dir,
                adapter=adapter,
                sample=SAMPLE if sample is None else sample,
                truncate=truncate,
                kind=kind,
                memory_budget=budget,
                progress=by_stage(bar),
            )
    _tell(folder, source, before.encoder.name, done)


def _tell(folder: Path, source: EncoderSource, before: str, done: Upgraded) -> None:
    """Print what was done, what it costs, and what comes next."""
    if done.how == "unchanged":
        typer.echo(f"{folder} already uses this encoder, {done.manifest.encoder.name}; nothing was changed")
    elif done.how == "restored":
        typer.echo(f"queries and documents are both encoded with {done.manifest.encoder.name} again")
    elif done.how == "encoded":
        typer.echo(f"the documents are now encoded with {done.manifest.encoder.name} instead of {before}")
        show_facts(folder, done.manifest)
    else:
        _show_cost(done)
        options = [("model", source.model), ("pooling", source.pooling), ("max-length", source.max_length)]
        if source.precision != "float32":
            options.append(("precision", source.precision))
        given = [part for name, value in options if value is not None for part in (f"--{name}", value)]
        next_command(
            "index", "upgrade", folder, *given, comment="encodes the documents with the new model too"
        )
    next_command("index", "search", folder, "your question")


def _show_cost(done: Upgraded) -> None:
    from sentemb.report.table import Table

    facts, new = done.manifest.adapter, done.manifest.encoder.name
    assert facts is not None
    old = facts.documents.name
    rows = (
        (f"{new} for both", "1.000", f"{facts.unadapted:.3f}"),
        (f"{new} queries, mapped to {old}", f"{facts.recall_new:.3f}", f"{facts.recall_old:.3f}"),
        (f"{old} for both", f"{facts.unadapted:.3f}", "1.000"),
    )
    notes = (
        f"measured with {facts.queries:,} queries on {facts.corpus:,} texts that the map was not trained on",
        f"map: {facts.method}, trained on {facts.sample - facts.corpus:,} texts",
        f"new documents are still encoded with {old}",
    )
    header = ("recall@10", f"against {new}", f"against {old}")
    show(Table("", header, rows, names=1, notes=notes))
