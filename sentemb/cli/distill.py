"""`sentemb distill`: a small, fast student of an encoder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sentemb.cli.console import next_step, progress_bar
from sentemb.cli.options import (
    EncoderOptions,
    Model,
    OutputFolder,
    Seed,
    TextColumn,
    given_data_dir,
    given_options,
    grouped,
)
from sentemb.errors import InputError

_TIMED = 100  # texts, of which the teacher's speed is measured
_STATIC = {"dimension": 256, "vocabulary": 52_000, "dtype": "int8"}

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentemb.encoding import TextEncoder


@grouped
def distill(
    teacher: Model,
    texts: Annotated[
        str, typer.Option(help="Your documents: a file, a folder, a catalogue name or a folder as of BEIR.")
    ],
    output: OutputFolder,
    options: EncoderOptions,
    text_column: TextColumn = None,
    layers: Annotated[
        int | None,
        typer.Option(
            min=1, help="A transformer with so many of the teacher's layers.", show_default="static"
        ),
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(min=2, help="Numbers in a static student's vector.", show_default="256")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1000, help="Most tokens of a static student.", show_default="52000")
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "int8"] | None,
        typer.Option(help="How each number of a static student is kept.", show_default="int8"),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Most texts that the teacher encodes.")] = 200_000,
    steps: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Of a static student, 1,024 texts each; of layers, 64 each.",
            show_default="1000; all texts once",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run of --layers.")] = False,
    seed: Seed = 0,
) -> None:
    """Distill an encoder into a smaller one on your texts: token vectors, or a few of its layers.

    Token vectors are hundreds of times faster. An interrupted run of them leaves nothing and starts again;
    with --cache-dir the teacher's vectors are kept. A run of --layers resumes with --resume.
    """
    from sentemb._files import refuse_unusable_output

    refuse_unusable_output(output, [texts, teacher], cache=options.cache_dir)
    static = {"dimension": dimension, "vocabulary": vocabulary, "dtype": dtype}
    given = {name: value for name, value in static.items() if value is not None}
    if layers is None:
        if resume:
            raise InputError("--resume is for --layers", "run the command again; --cache-dir keeps vectors")
        _static(
            teacher, texts, output, options, text_column, {**_STATIC, **given}, sentences, steps or 1000, seed
        )
    elif given:
        raise InputError(f"--{next(iter(given))} is for static students", "leave it or --layers out")
    else:
        _layered(teacher, texts, output, options, text_column, layers, sentences, steps, seed, resume=resume)
    data = given_options({"--data-dir": (given_data_dir(options.data_dir), None)})
    next_step(shlex.join(["sentemb", "eval", "sts", str(output), teacher, *data]))


def _layered(
    teacher: str,
    texts: str,
    output: Path,
    options: EncoderOptions,
    text_column: str | None,
    layers: int,
    sentences: int,
    steps: int | None,
    seed: int,
    *,
    resume: bool,
) -> None:
    """A transformer with fewer layers."""
    for name in ("device", "cache_dir"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for static students", "leave it or --layers out")
    if options.precision != "float32":
        raise InputError("--precision is for static students", "leave it or --layers out")
    from sentemb.compression import distill_layers
    from sentemb.encoding import load_encoder
    from sentemb.training.outcome import Interrupted
    from sentemb.training.progress import ConsoleProgress

    try:
        student = distill_layers(
            teacher,
            texts,
            output,
            layers=layers,
            resume=resume,
            progress=ConsoleProgress(),
            pooling=options.pooling,
            max_length=options.max_length,
            sentences=sentences,
            max_steps=steps,
            text_column=text_column,
            data_dir=None if options.data_dir is None else str(options.data_dir),
            seeds=(seed,),
        )
    except Interrupted as stopped:
        typer.echo(f"{stopped.folder}: {stopped}", err=True)
        raise
    whole = load_encoder(teacher, pooling=options.pooling)  # type: ignore[arg-type]
    speeds = _speeds(load_encoder(output), whole, student.held_out[:_TIMED])
    kept = f"{layers} {'layer' if layers == 1 else 'layers'}"
    typer.echo(
        f"{output}: {kept}, {speeds['student']:,.0f} texts a second here, "
        f"{speeds['student'] / speeds['teacher']:.1f} times the teacher's {speeds['teacher']:,.0f}"
    )
    typer.echo(
        f"on {len(student.held_out):,} held-out texts: cosine with the teacher {student.before:.3f} before "
        f"training, {student.agreement.cosine:.3f} now; agreement on similarities "
        f"{student.agreement.similarities:.3f}"
    )


def _static(
    teacher: str,
    texts: str,
    output: Path,
    options: EncoderOptions,
    text_column: str | None,
    given: dict[str, Any],
    sentences: int,
    steps: int,
    seed: int,
) -> None:
    """Token vectors."""
    from sentemb._files import check_new_folder, shareable

    check_new_folder(output)
    from sentemb.data.own_documents import read_own_documents
    from sentemb.data.sources import describe_source

    documents = read_own_documents(texts, text_column=text_column, data_dir=options.data_dir)
    from sentemb.compression import StaticOptions, distill_static, draw_texts, save_student
    from sentemb.compression.distillation import tokenizer_of
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.environment import library_versions
    from sentemb.modules.cards import base_terms, public_name

    reading = _reading(options, text_column)
    settings = {**given, "sentences": sentences, "steps": steps, "seed": seed, **reading}
    drawn = draw_texts(documents, most=sentences, seed=seed)
    wanted = StaticOptions(
        dimension=given["dimension"],
        vocabulary=given["vocabulary"],
        storage=given["dtype"],
        steps=steps,
        seed=seed,
    )
    encoder = options.load(teacher)
    tokenizer = tokenizer_of(encoder)
    with progress_bar() as bar:
        student = distill_static(encoder, tokenizer, drawn, wanted, progress=bar)
    record: dict[str, Any] = {
        "teacher": public_name(teacher),
        "teacher_fingerprint": encoder.fingerprint,
        "data": {
            **describe_source(texts, data_dir=options.data_dir),
            "documents": len(documents),
            "texts": len(drawn.training),
        },
        "held_out": len(drawn.held_out),
        "tokens": len(student.table),
        "dimension": student.table.shape[1],
        "storage": given["dtype"],
        "steps": steps,
        "seed": seed,
        **reading,
        "agreement": student.agreement._asdict(),
        "command": shlex.join(
            [
                "sentemb",
                "distill",
                public_name(teacher),
                "--texts",
                shareable(texts),
                "-o",
                output.name,
                *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
            ]
        ),
        "versions": library_versions(),
    }
    whole = _on_cpu(encoder, teacher, options)
    record["speed"] = _speeds(load_encoder(student.model()), whole, drawn.held_out)
    size = save_student(output, student, record, storage=given["dtype"], terms=base_terms(teacher))
    _tell(output, size, record)


def _reading(options: EncoderOptions, text_column: str | None) -> dict[str, Any]:
    """The options that decide the texts and the teacher's vectors of them, where they are given."""
    reduced = options.precision if options.precision != "float32" else None
    named = {
        "text_column": text_column,
        "pooling": options.pooling,
        "max_length": options.max_length,
        "precision": reduced,
    }
    return {name: value for name, value in named.items() if value is not None}


def _on_cpu(encoder: TextEncoder, teacher: str, options: EncoderOptions) -> TextEncoder:
    """The teacher where a static student runs, without kept vectors."""
    uncached: Any = getattr(encoder, "encoder", encoder)
    if uncached.model.device.type == "cpu":
        return uncached  # type: ignore[no-any-return]
    return replace(options, device="cpu", cache_dir=None).load(teacher)


def _speeds(student: TextEncoder, teacher: TextEncoder, texts: Sequence[str]) -> dict[str, float]:
    """Texts a second of both, in turns."""
    from sentemb.evaluation.timing import time_in_turns

    few = list(texts[:_TIMED])
    actions = {"student": lambda: student.encode(texts), "teacher": lambda: teacher.encode(few)}
    took = time_in_turns(actions, rounds=3, warm_up=1)
    return {"student": len(texts) / min(took["student"]), "teacher": len(few) / min(took["teacher"])}


def _tell(output: Path, size: int, record: dict[str, Any]) -> None:
    speed, agreement = record["speed"], record["agreement"]
    typer.echo(
        f"{output}: {size / 1e6:.1f} MB, {record['tokens']:,} tokens of {record['dimension']} dimensions"
    )
    typer.echo(
        f"speed on the CPU here: {speed['student']:,.0f} texts a second, "
        f"{speed['student'] / speed['teacher']:.0f} times the teacher's {speed['teacher']:,.0f}"
    )
    typer.echo(
        f"on {record['held_out']:,} held-out texts: cosine with the teacher {agreement['cosine']:.3f}, "
        f"agreement on similarities {agreement['similarities']:.3f}"
    )
