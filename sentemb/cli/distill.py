"""`sentemb distill`: a small, fast student of an encoder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sentemb.cli.console import next_step, progress_bar
from sentemb.cli.options import EncoderOptions, Model, OutputFolder, Seed, grouped

_TIMED = 100  # texts, of which the teacher's speed is measured

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
    column: Annotated[str | None, typer.Option(help="Text column, where there are several.")] = None,
    dimension: Annotated[int, typer.Option(min=2, help="Numbers in a vector.")] = 256,
    vocabulary: Annotated[int, typer.Option(min=1000, help="Most tokens.")] = 52_000,
    dtype: Annotated[
        Literal["float32", "float16", "int8"], typer.Option(help="How each number is kept.")
    ] = "int8",
    sentences: Annotated[int, typer.Option(min=1, help="Most texts that the teacher encodes.")] = 200_000,
    steps: Annotated[int, typer.Option(min=2, help="Steps of refinement, 1,024 texts each.")] = 1000,
    seed: Seed = 0,
) -> None:
    """Distill an encoder into token vectors: hundreds of times its speed, near its quality on your texts.

    An interrupted run leaves nothing and starts again; with --cache-dir the teacher's vectors are kept.
    """
    from sentemb._files import refuse_output_over_input, shareable

    refuse_output_over_input(output, [texts, teacher], cache=options.cache_dir)
    _refuse_existing(output)
    from sentemb.data.own_documents import read_own_documents
    from sentemb.data.sources import describe_source

    documents = read_own_documents(texts, text_column=column, data_dir=options.data_dir)
    from sentemb.compression import StaticOptions, distill_static, draw_texts, save_student
    from sentemb.compression.distillation import tokenizer_of
    from sentemb.encoding import load_encoder
    from sentemb.evaluation.environment import library_versions
    from sentemb.modules.cards import base_terms, public_name

    given = {"dimension": dimension, "vocabulary": vocabulary, "dtype": dtype, "sentences": sentences}
    told = [f"--{name}={value}" for name, value in {**given, "steps": steps, "seed": seed}.items()]
    drawn = draw_texts(documents, most=sentences, seed=seed)
    wanted = StaticOptions(dimension=dimension, vocabulary=vocabulary, storage=dtype, steps=steps, seed=seed)
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
        "storage": dtype,
        "steps": steps,
        "seed": seed,
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
                *told,
            ]
        ),
        "versions": library_versions(),
    }
    uncached = getattr(encoder, "encoder", encoder)
    record["speed"] = _speeds(load_encoder(student.model()), uncached, drawn.held_out)
    size = save_student(output, student, record, storage=dtype, terms=base_terms(teacher))
    _tell(output, size, record)
    next_step(shlex.join(["sentemb", "eval", "sts", str(output), teacher]))


def _refuse_existing(output: Path) -> None:
    from sentemb.errors import InputError

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{output} already exists", "choose another output or remove it")


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
        f"speed here: {speed['student']:,.0f} texts a second, {speed['student'] / speed['teacher']:.0f} "
        f"times the teacher's {speed['teacher']:,.0f}"
    )
    typer.echo(
        f"on {record['held_out']:,} held-out texts: cosine with the teacher {agreement['cosine']:.3f}, "
        f"agreement on similarities {agreement['similarities']:.3f}"
    )
