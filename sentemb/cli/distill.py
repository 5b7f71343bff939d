"""`sentemb distill`: a small, fast student of an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sentemb.cli.console import leave_interrupted, next_command, progress_bar
from sentemb.cli.options import (
    DOCUMENTS,
    EncoderOptions,
    Model,
    OutputFolder,
    Seed,
    TextColumn,
    TitleColumn,
    given_data_dir,
    given_options,
    grouped,
)
from sentemb.errors import InputError


@dataclass(frozen=True, kw_only=True)
class _TeacherOptions(EncoderOptions):
    """How the teacher is loaded."""

    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum input length in tokens: of the teacher, and with --layers of the student in "
            "training.",
        ),
    ] = None


@grouped
def distill(
    teacher: Model,
    texts: Annotated[str, typer.Option(help=DOCUMENTS)],
    output: OutputFolder,
    options: _TeacherOptions,
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    layers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Train a transformer with N of the teacher's layers, instead of a static student.",
            show_default="static student",
        ),
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(min=2, help="Dimensions of a static student.", show_default="256")
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=1000, help="Maximum vocabulary size of a static student.", show_default="52000"),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "int8"] | None,
        typer.Option(help="Number format of a static student's table.", show_default="int8"),
    ] = None,
    sentences: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of sentences that the teacher encodes.", show_default="200000"
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of training steps: of 1,024 texts for a static student, of 64 with --layers.",
            show_default="1000; with --layers one epoch",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run with --layers.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Distill an encoder on your texts into a smaller one: static token vectors, or fewer layers.

    A static student is faster, since it does not run a network. If interrupted, it starts from scratch;
    --cache-dir keeps the teacher's vectors. With --layers, an interrupted run continues with --resume.
    """
    from sentemb._files import refuse_unusable_output

    refuse_unusable_output(output, [texts, teacher], cache=options.cache_dir)
    static = {"dimension": dimension, "vocabulary": vocabulary, "dtype": dtype}
    common = {"text_column": text_column, "title_column": title_column, "sentences": sentences}
    if layers is None:
        if resume:
            raise InputError(
                "--resume works only with --layers",
                "run the command without --resume; --cache-dir keeps the teacher's vectors",
            )
        _static(teacher, texts, output, options, steps=steps, seed=seed, **static, **common)
    else:
        _refuse_static(static, options)
        run = {"resume": resume, "max_steps": steps, "seeds": (seed,)}
        _layered(teacher, texts, output, options, layers, **run, **common)
    data = given_options({"--data-dir": (given_data_dir(options.data_dir), None)})
    next_command("eval", "sts", output, teacher, *data)


def _refuse_static(static: Mapping[str, Any], options: EncoderOptions) -> None:
    """Refuse options that only static students have."""
    reduced = None if options.precision == "float32" else options.precision
    loading = {"device": options.device, "cache_dir": options.cache_dir, "precision": reduced}
    for name, value in {**static, **loading}.items():
        if value is not None:
            raise InputError(
                f"--{name.replace('_', '-')} does not work with --layers", "remove one of the two options"
            )


def _layered(
    teacher: str, texts: str, output: Path, options: EncoderOptions, layers: int, **settings: Any
) -> None:
    """A transformer with fewer layers."""
    from sentemb.compression import distill_layers
    from sentemb.training.outcome import Interrupted
    from sentemb.training.progress import ConsoleProgress

    try:
        student = distill_layers(
            teacher,
            texts,
            output,
            layers=layers,
            progress=ConsoleProgress(),
            pooling=options.pooling,
            max_length=options.max_length,
            data_dir=None if options.data_dir is None else str(options.data_dir),
            **settings,
        )
    except Interrupted as stopped:
        leave_interrupted(stopped)
    kept = f"{layers} {'layer' if layers == 1 else 'layers'}"
    typer.echo(
        f"{output}: {kept}, {student.speed.student:,.0f} texts per second on this machine, "
        f"{student.speed.ratio:.1f} times the teacher's {student.speed.teacher:,.0f}"
    )
    typer.echo(
        f"on {len(student.held_out):,} held-out texts: cosine with the teacher {student.before:.3f} before "
        f"training, {student.agreement.cosine:.3f} after; agreement on similarities "
        f"{student.agreement.similarities:.3f}"
    )


def _static(teacher: str, texts: str, output: Path, options: EncoderOptions, **settings: Any) -> None:
    """Token vectors."""
    from sentemb.compression import distill_static

    with progress_bar() as bar:
        student = distill_static(teacher, texts, output, progress=bar, **vars(options), **settings)
    typer.echo(
        f"{output}: {student.bytes / 1e6:.1f} MB, {student.tokens:,} tokens of {student.dimension} dimensions"
    )
    typer.echo(
        f"speed on this CPU: {student.speed.student:,.0f} texts per second, "
        f"{student.speed.ratio:.0f} times the teacher's {student.speed.teacher:,.0f}"
    )
    typer.echo(
        f"on {len(student.held_out):,} held-out texts: cosine with the teacher "
        f"{student.agreement.cosine:.3f}, agreement on similarities {student.agreement.similarities:.3f}"
    )
