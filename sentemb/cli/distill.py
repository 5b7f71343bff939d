"""`sentemb distill`: a small, fast student of an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sentemb.cli.console import next_command, progress_bar
from sentemb.cli.options import (
    DOCUMENTS,
    EncoderOptions,
    Fields,
    Model,
    OutputFolder,
    Resume,
    Values,
    grouped,
)
from sentemb.compression.config import LayeredConfig, StaticOptions
from sentemb.errors import InputError


class _TeacherOptions(EncoderOptions):
    max_length: Annotated[int | None, typer.Option(min=1)] = None
    """Maximum input length in tokens: of the teacher, and with --layers of the student in training."""


@grouped
def distill(
    teacher: Model,
    texts: Annotated[str, typer.Option(help=DOCUMENTS)],
    output: OutputFolder,
    *,
    reading: Annotated[Values, Fields(LayeredConfig, "text_column", "title_column", "layers")],
    static: Annotated[Values, Fields(StaticOptions, "dimension", "vocabulary", "dtype")],
    sampling: Annotated[Values, Fields(StaticOptions, "sentences", "seed")],
    steps: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of training steps: of 1,024 texts for a static student, of 64 with --layers.",
            show_default="1000; with --layers one epoch",
        ),
    ] = None,
    resume: Resume = False,
    options: _TeacherOptions,
) -> None:
    """Distill an encoder on your texts into a smaller one: static token vectors, or fewer layers.

    A static student is faster, since it does not run a network. If interrupted, it starts from scratch;
    --cache-dir keeps the teacher's vectors. With --layers, an interrupted run continues with --resume.
    """
    from sentemb._files import refuse_unusable_output

    refuse_unusable_output(output, [texts, teacher], cache=options.cache_dir)
    settings = reading | sampling
    if "layers" in reading:
        loading = {name: value for name, value in options.values("device", "cache_dir").items() if value}
        reduced = {} if options.precision == "float32" else {"precision": options.precision}
        for name in static | loading | reduced:
            raise InputError(
                f"--{name.replace('_', '-')} does not work with --layers", "remove one of the two options"
            )
        settings |= options.values("pooling", "max_length")
        settings |= {"max_steps": steps, "seeds": (settings.pop("seed", 0),)}
        if options.data_dir is not None:
            settings["data_dir"] = str(options.data_dir)
        _layered(teacher, texts, output, resume, settings)
    elif resume:
        raise InputError(
            "--resume works only with --layers",
            "run the command without --resume; --cache-dir keeps the teacher's vectors",
        )
    else:
        _static(teacher, texts, output, settings | static | options.values() | {"steps": steps})
    next_command("eval", "sts", output, teacher, *options.flags("data_dir"))


def _layered(teacher: str, texts: str, output: Path, resume: bool, settings: dict[str, Any]) -> None:
    """Train a transformer with fewer layers."""
    from sentemb.compression import distill_layers
    from sentemb.training.progress import ConsoleProgress

    student = distill_layers(teacher, texts, output, resume=resume, progress=ConsoleProgress(), **settings)
    layers, speed, agreement = settings["layers"], student.speed, student.agreement
    typer.echo(
        f"{output}: {layers} {'layer' if layers == 1 else 'layers'}, {speed.student:,.0f} texts per second "
        f"on this machine, {speed.ratio:.1f} times the teacher's {speed.teacher:,.0f}\n"
        f"on {len(student.held_out):,} held-out texts: cosine with the teacher {student.before:.3f} before "
        f"training, {agreement.cosine:.3f} after; agreement on similarities {agreement.similarities:.3f}"
    )


def _static(teacher: str, texts: str, output: Path, settings: dict[str, Any]) -> None:
    """Learn token vectors."""
    from sentemb.compression import distill_static

    with progress_bar() as bar:
        student = distill_static(teacher, texts, output, progress=bar, **settings)
    speed, agreement = student.speed, student.agreement
    typer.echo(
        f"{output}: {student.bytes / 1e6:.1f} MB, {student.tokens:,} tokens of {student.dimension} "
        f"dimensions\nspeed on this CPU: {speed.student:,.0f} texts per second, {speed.ratio:.0f} times the "
        f"teacher's {speed.teacher:,.0f}\n"
        f"on {len(student.held_out):,} held-out texts: cosine with the teacher {agreement.cosine:.3f}, "
        f"agreement on similarities {agreement.similarities:.3f}"
    )
