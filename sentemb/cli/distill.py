"""`sentemb distill`: a small, fast student of an encoder."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import Field

from sentemb._files import refuse_unusable_output
from sentemb.cli import options as opt
from sentemb.cli.console import next_command, progress_bar
from sentemb.compression.config import LayeredConfig, StaticOptions
from sentemb.errors import InputError


class _Options(opt.EncoderOptions):
    teacher: opt.Model
    texts: str = Field(description=opt.DOCUMENTS)
    output: opt.OutputFolder
    reading: Annotated[opt.Values, opt.Fields(LayeredConfig, "text_column", "title_column", "layers")]
    static: Annotated[opt.Values, opt.Fields(StaticOptions, "dimension", "vocabulary", "dtype")]
    sampling: Annotated[opt.Values, opt.Fields(StaticOptions, "sentences", "seed")]
    steps: Annotated[int | None, typer.Option(min=2, show_default="1000; with --layers one epoch")] = None
    """Number of training steps: of 1,024 texts for a static student, of 64 with --layers."""
    resume: opt.Resume = False
    max_length: Annotated[int | None, typer.Option(min=1)] = None
    """Maximum input length in tokens: of the teacher, and with --layers of the student in training."""


@opt.grouped
def distill(options: _Options) -> None:
    """Distill an encoder on your texts into a smaller one: static token vectors, or fewer layers.

    A static student is faster, since it does not run a network. If interrupted, it starts from scratch;
    --cache-dir keeps the teacher's vectors. With --layers, an interrupted run continues with --resume.
    """
    teacher, texts, output = options.teacher, options.texts, options.output
    refuse_unusable_output(output, [texts, teacher], cache=options.cache_dir)
    settings = options.reading | options.sampling
    if (layers := settings.get("layers")) is not None:
        unfit = [*opt.flags(**options.static), *options.flags("device", "cache_dir", "precision")]
        for flag in unfit[::2]:
            raise InputError(f"{flag} does not work with --layers", "remove one of the two options")
        settings |= options.values("pooling", "max_length", "resume")
        settings |= {"max_steps": options.steps, "seeds": (settings.pop("seed", 0),)}
        if options.data_dir is not None:
            settings["data_dir"] = str(options.data_dir)
        from sentemb.compression import distill_layers
        from sentemb.training.progress import ConsoleProgress

        layered = distill_layers(teacher, texts, output, progress=ConsoleProgress(), **settings)
        speed, agreement = layered.speed, layered.agreement
        typer.echo(
            f"{output}: {layers} {'layer' if layers == 1 else 'layers'}, {speed.student:,.0f} texts per "
            f"second on this machine, {speed.ratio:.1f} times the teacher's {speed.teacher:,.0f}\n"
            f"on {len(layered.held_out):,} held-out texts: cosine with the teacher {layered.before:.3f} "
            f"before training, {agreement.cosine:.3f} after; agreement on similarities "
            f"{agreement.similarities:.3f}"
        )
    elif options.resume:
        hint = "run the command without --resume; --cache-dir keeps the teacher's vectors"
        raise InputError("--resume works only with --layers", hint)
    else:
        from sentemb.compression import distill_static

        settings |= options.static | options.values(*opt.EncoderOptions.model_fields, "steps")
        with progress_bar() as bar:
            student = distill_static(teacher, texts, output, progress=bar, **settings)
        speed, agreement = student.speed, student.agreement
        typer.echo(
            f"{output}: {student.bytes / 1e6:.1f} MB, {student.tokens:,} tokens of {student.dimension} "
            f"dimensions\nspeed on this CPU: {speed.student:,.0f} texts per second, {speed.ratio:.0f} times "
            f"the teacher's {speed.teacher:,.0f}\n"
            f"on {len(student.held_out):,} held-out texts: cosine with the teacher {agreement.cosine:.3f}, "
            f"agreement on similarities {agreement.similarities:.3f}"
        )
    next_command("eval", "sts", output, teacher, *options.flags("data_dir"))
