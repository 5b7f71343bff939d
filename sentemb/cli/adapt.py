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
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder for the adapted model. It must be new or empty.")
    ],
    base: Annotated[
        str, typer.Option("--base", "-b", help="Encoder to adapt: folder, hub id or bundled model.")
    ] = DEFAULT_ENCODER,
    minutes: Annotated[float, typer.Option(min=0.001, help="Time limit for training, in minutes.")] = 20.0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Number of optimizer steps.", show_default="depends on the base")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Number of pairs per step.", show_default="depends on the base")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate.", show_default="depends on the base")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Stronger encoder whose similarity scores the model learns, or none.",
            show_default="static-mini for English texts and a pretrained base, else none",
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Train only the last N layers.", show_default="all")
    ] = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Maximum loss in points on general sentence pairs and on bundled questions about Python.",
            show_default="not measured",
        ),
    ] = None,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    pooling: Pooling = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum length of a training text in tokens. Longer texts are truncated.",
            show_default="128",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed for the pairs, the splits and dropout.")
    ] = 1,
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
