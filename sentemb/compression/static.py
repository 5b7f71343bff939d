"""A static student of any encoder, from documents to a folder with its record and card."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._files import check_new_folder, shareable
from sentemb.compression.distillation import Agreement, Progress, StaticOptions, learn_token_vectors
from sentemb.compression.distillation_folder import save_student
from sentemb.compression.distillation_texts import draw_texts
from sentemb.compression.speed import Speed, speed_of
from sentemb.data.own_documents import read_own_documents
from sentemb.data.sources import describe_source
from sentemb.encoding import Precision, TextEncoder, load_encoder
from sentemb.evaluation.environment import library_versions
from sentemb.modules.cards import base_terms, public_name
from sentemb.modules.poolings import Poolings


class StaticStudent(NamedTuple):
    """A student of token vectors.

    Attributes:
        output: Its folder.
        agreement: On the held-out texts.
        speed: Of student and teacher on the CPU.
        bytes: Of the model, without card and record.
        tokens: How many have a vector.
        dimension: Of a vector.
        held_out: These texts.
    """

    output: Path
    agreement: Agreement
    speed: Speed
    bytes: int
    tokens: int
    dimension: int
    held_out: list[str]


def distill_static(
    teacher: str,
    texts: str | Path,
    output: str | Path,
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    pooling: Poolings | None = None,
    precision: Precision = "float32",
    max_length: int | None = None,
    device: str | None = None,
    cache_dir: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress = lambda stage, done, total: None,
    **settings: Any,
) -> StaticStudent:
    """Distill an encoder into token vectors on your texts, and write them as a model.

    The teacher's tokens start with its vectors of them, frequent ones short (as in model2vec). The mean of a
    text's token vectors is turned towards the teacher's vector of the text; rare tokens, of which texts say
    little, are turned less. Words and pairs whose texts stay farthest from the teacher become tokens, and all
    are turned again. The folder appears whole, with a card and the record `distillation.json`.

    Args:
        teacher: An encoder with a fast tokenizer: a folder, a hub id or a bundled model.
        texts: What `read_own_documents` takes.
        output: Folder to make.
        text_column: Column of the documents' text; by default the only one, or the one called `text`.
        title_column: Column of their titles; by default `title`, where there is one; `none` takes none.
        pooling: Of a raw transformer as teacher; this and the next four are what `load_encoder` takes.
        precision: Of the teacher.
        max_length: Longest input of the teacher in tokens; its own limit by default.
        device: Of the teacher; the best there is by default.
        cache_dir: Keep the teacher's vectors in this folder, and use those there; none are kept by default.
        data_dir: Where the catalogue's sets lie; `SENTEMB_DATA` by default.
        progress: Takes a stage, and how much of how much of it is done.
        **settings: Fields of `StaticOptions`, such as `dimension`, `vocabulary`, `sentences`, `seed`.

    Returns:
        The student.

    Raises:
        InputError: The texts, the teacher, a setting or the folder cannot be used.

    Example:
        >>> distill_static("all-MiniLM-L6-v2", "docs/", "small", dimension=128).agreement  # doctest: +SKIP
    """
    options = StaticOptions(**{name: value for name, value in settings.items() if value is not None})
    output = Path(output)
    check_new_folder(output)
    documents = read_own_documents(
        texts, text_column=text_column, title_column=title_column, data_dir=data_dir
    )
    drawn = draw_texts(documents, most=options.sentences, seed=options.seed)
    load = partial(
        load_encoder,
        teacher,
        pooling=pooling,
        precision=precision,
        max_length=max_length,
        data_dir=data_dir,
    )
    encoder = load(device=device, cache_dir=cache_dir)
    student = learn_token_vectors(encoder, drawn, options, progress=progress)
    tokens, dimension = student.table.shape
    progress("timing", 1, 1)
    speed = speed_of(load_encoder(student.model()), _on_cpu(encoder, load), drawn.held_out)
    # What decides the texts and the teacher's vectors of them, where it is given.
    given = {
        "text_column": text_column,
        "title_column": title_column,
        "pooling": pooling,
        "max_length": max_length,
        "precision": None if precision == "float32" else precision,
    }
    reading = {name: value for name, value in given.items() if value is not None}
    record = {
        "teacher": public_name(teacher),
        "teacher_fingerprint": encoder.fingerprint,
        "data": {
            **describe_source(texts, data_dir=data_dir),
            "documents": len(documents),
            "texts": len(drawn.training),
        },
        "held_out": len(drawn.held_out),
        "tokens": tokens,
        "dimension": dimension,
        "storage": options.dtype,
        "steps": options.steps,
        "seed": options.seed,
        **reading,
        "agreement": student.agreement._asdict(),
        "command": _command(teacher, texts, output, {**options.values(), **reading}),
        "versions": library_versions(),
        "speed": speed._asdict(),
    }
    size = save_student(output, student, record, storage=options.dtype, terms=base_terms(teacher))
    return StaticStudent(output, student.agreement, speed, size, tokens, dimension, drawn.held_out)


def _command(teacher: str, texts: str | Path, output: Path, settings: Mapping[str, Any]) -> str:
    """The command that makes the student, as strangers may read it."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    given = [public_name(teacher), "--texts", shareable(texts), "-o", output.name]
    return shlex.join(["sentemb", "distill", *given, *options])


def _on_cpu(encoder: TextEncoder, load: Callable[..., TextEncoder]) -> TextEncoder:
    """The teacher where a static student runs, without kept vectors."""
    uncached: Any = getattr(encoder, "encoder", encoder)
    if uncached.model.device.type == "cpu":
        return uncached  # type: ignore[no-any-return]
    return load(device="cpu")
