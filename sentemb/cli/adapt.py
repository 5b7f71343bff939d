"""`sentemb adapt`: make an encoder better for one's own documents, or say that it cannot be."""

from __future__ import annotations

from typing import Annotated

import typer

from sentemb._files import refuse_unusable_output
from sentemb.cli.console import leave_interrupted, next_command
from sentemb.cli.options import (
    DEFAULT_ENCODER,
    DOCUMENTS,
    DataDir,
    Pooling,
    TextColumn,
    TitleColumn,
    given_data_dir,
    given_options,
)


def adapt(
    documents: Annotated[str, typer.Argument(help=DOCUMENTS)],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder for the model; new or empty.")],
    base: Annotated[
        str, typer.Option("--base", "-b", help="Encoder: a folder, a hub id, a bundled one.")
    ] = DEFAULT_ENCODER,
    minutes: Annotated[
        float, typer.Option(min=0.001, help="Training ends after this time at the latest.")
    ] = 20.0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps.", show_default="by the base")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Pairs of a step.", show_default="by the base")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate.", show_default="by the base")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Better encoder, whose similarities are learned, or none.",
            show_default="static-mini for a raw base and English, else none",
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Train only so many of the last layers.", show_default="all")
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Points that the model may lose on general sentence pairs and on questions on Python.",
            show_default="not measured",
        ),
    ] = None,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    pooling: Pooling = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Longest training input in tokens.", show_default="128")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of pairs, parts and dropout.")] = 1,
    data_dir: DataDir = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
) -> None:
    """Adapt an encoder to your documents: no labels, minutes on two cores."""
    refuse_unusable_output(output, [documents, base, *filter(None, [teacher])])
    from sentemb.adaptation import adapt as run
    from sentemb.training.outcome import Interrupted
    from sentemb.training.progress import ConsoleProgress

    try:
        found = run(
            documents,
            base,
            output,
            resume=resume,
            progress=ConsoleProgress(),
            minutes=minutes,
            max_steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            teacher=teacher,
            layers=layers,
            max_forgetting=max_forgetting,
            text_column=text_column,
            title_column=title_column,
            pooling=pooling,
            max_length=max_length,
            seeds=(seed,),
            data_dir=None if data_dir is None else str(data_dir),
        )
    except Interrupted as stopped:
        leave_interrupted(stopped)
    for kind in found.kinds:
        ndcg, recall = (f"{before:.1f} -> {after:.1f}" for before, after in (kind.ndcg, kind.recall))
        typer.echo(f"{kind.name}: NDCG@10 {ndcg}, recall@100 {recall} ({kind.queries} generated queries)")
    typer.echo(f"Reliability: {found.reliability.sentence()}.")
    typer.echo(f"Verdict: {found.verdict()}.")
    model = output if found.helped else base
    given = given_options(
        {
            "--text-column": (text_column, None),
            "--title-column": (title_column, None),
            "--data-dir": (given_data_dir(data_dir), None),
            "--pooling": (None if found.helped else pooling, None),
        }
    )
    next_command("index", "build", documents, *given, "--model", model, "--output", "index")
