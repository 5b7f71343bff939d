"""`sentemb adapt`: make an encoder better for one's own documents, or say that it cannot be."""

from __future__ import annotations

from typing import Annotated

import typer

from sentemb._files import refuse_unusable_output
from sentemb.adaptation.config import AdaptConfig
from sentemb.cli import options as opt
from sentemb.cli.console import next_command

_FIELDS = opt.Fields(
    AdaptConfig,
    *("minutes", ("max_steps", "steps"), "batch_size", "learning_rate", "teacher", "layers"),
    *("max_forgetting", "text_column", "title_column", "pooling", "max_length"),
    *(("seeds", "seed"), "data_dir"),
)


class _Options(opt.Options):
    documents: Annotated[str, typer.Argument(help=opt.DOCUMENTS)]
    output: Annotated[str, typer.Option("--output", "-o")]
    """Folder for the adapted model. It must be new or empty."""
    base: Annotated[str, typer.Option("--base", "-b")] = opt.DEFAULT_ENCODER
    """Encoder to adapt: folder, hub id or bundled model."""
    settings: Annotated[opt.Values, _FIELDS]
    resume: opt.Resume = False


@opt.grouped
def adapt(options: _Options) -> None:
    """Adapt an encoder to your documents: no labels, minutes on two cores."""
    documents, base, output, settings = options.documents, options.base, options.output, options.settings
    refuse_unusable_output(output, [documents, base, settings.get("teacher")])
    from sentemb.adaptation import adapt as run
    from sentemb.training.progress import ConsoleProgress

    adapted = run(documents, base, output, resume=options.resume, progress=ConsoleProgress(), **settings)
    for kind in adapted.kinds:
        ndcg, recall = (f"{before:.1f} -> {after:.1f}" for before, after in (kind.ndcg, kind.recall))
        typer.echo(f"{kind.name}: NDCG@10 {ndcg}, recall@100 {recall} ({kind.queries} generated queries)")
    typer.echo(f"Reliability: {adapted.reliability.sentence()}.")
    typer.echo(f"Verdict: {adapted.verdict()}.")
    reading = ("text_column", "title_column", "data_dir", *([] if adapted.helped else ["pooling"]))
    shared = opt.flags(**{name: settings.get(name) for name in reading})
    model = output if adapted.helped else base
    next_command("index", "build", documents, *shared, "--model", model, "--output", "index")
