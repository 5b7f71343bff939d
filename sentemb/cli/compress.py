"""`sentemb compress`: smaller and faster variants of a model, measured on your own documents."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.console import next_command, progress_bar, say, show
from sentemb.cli.options import (
    DOCUMENTS,
    DataDir,
    Markdown,
    MaxLength,
    Overwrite,
    Pooling,
    Seed,
    TextColumn,
    TitleColumn,
    bundled_models,
    given_data_dir,
    given_options,
    split_names,
)
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.compression.write import Compressed
    from sentemb.data.sts import ScoredPairs
    from sentemb.evaluation import Difference
    from sentemb.report.table import Table

_MEGA = 1e6
_CALIBRATED = ("int8-", "layers-")  # prefixes of variants that depend on the calibration texts


def compress(
    model: Annotated[
        str,
        typer.Argument(
            help="Model to compress: folder, hub id or bundled model.", autocompletion=bundled_models
        ),
    ],
    texts: Annotated[str, typer.Option(help=DOCUMENTS)],
    text_column: TextColumn = None,
    title_column: TitleColumn = None,
    sets: Annotated[
        str | None,
        typer.Option(
            help="STS sets or your own files of scored pairs, separated by commas. The default is the dev "
            "split of STS-B, if it is available."
        ),
    ] = None,
    student: Annotated[
        Path | None,
        typer.Option(help="Student to compare with the variants: an output folder of `sentemb distill`."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Variants to try, separated by commas. The default is all.")
    ] = None,
    write: Annotated[str | None, typer.Option(help="Variant to write to --output.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the variant of --write.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Points of STS or NDCG@10 that a written variant may lose.")
    ] = 1.0,
    record: Annotated[Path | None, typer.Option(help="JSON file for all numbers.")] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    pooling: Pooling = None,
    max_length: MaxLength = None,
    data_dir: DataDir = None,
    markdown: Markdown = False,
) -> None:
    """Measure smaller variants of a model on your own documents, and write one.

    The variants are float16 and bfloat16, int8 for ONNX Runtime and OpenVINO, fewer layers, fewer dimensions,
    quantized vectors, and an int8 table for static models. The table lists their size, their speed, and their
    quality drop on scored pairs and on queries generated from your documents.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_json
    from sentemb.compression import QualityDropError, divide_documents
    from sentemb.compression import compress as run
    from sentemb.compression.write import TOLERANCE
    from sentemb.data.documents import read_unique_documents
    from sentemb.data.generated_queries import generate_queries
    from sentemb.data.sources import describe_source
    from sentemb.evaluation.environment import command_line, library_versions
    from sentemb.modules.cards import base_terms, public_name

    inputs = [model, texts, student, *split_names(sets or "")]
    if (write is None) != (output is None):
        raise InputError("--write and --output need each other", "pass --write VARIANT --output FOLDER")
    if output is not None:
        refuse_unusable_output(output, inputs)
    if record is not None:
        refuse_unusable_output(record, inputs)
        refuse_existing(record, overwrite=overwrite)
    documents = read_unique_documents(
        texts, text_column=text_column, title_column=title_column, data_dir=data_dir
    )
    parts = divide_documents(documents, seed=seed)
    tasks = generate_queries(parts.evaluation, count=150, most=len(parts.evaluation), seed=seed)
    pairs = _pairs(sets, data_dir)
    if not tasks:
        say("there are too few documents to generate queries from: NDCG@10 is skipped")
    about = {
        "model": public_name(model),
        "texts": describe_source(texts, data_dir=data_dir),
        "command": shlex.join(["sentemb", *command_line()[1:]]),
        "calibration": {"texts": len(parts.calibration), "priced": parts.shared},
        "seed": seed,
        "versions": library_versions(),
        "terms": base_terms(model),
    }
    refused = None
    with progress_bar() as progress:
        try:
            found = run(
                model,
                parts.calibration,
                pairs=pairs,
                tasks=tasks,
                student=student,
                only=() if only is None else split_names(only),
                wanted=write,
                output=output,
                overwrite=overwrite,
                tolerance=tolerance,
                pooling=pooling,  # type: ignore[arg-type]
                max_length=max_length,
                seed=seed,
                about=about,
                progress=progress,
            )
        except QualityDropError as error:  # it holds all reports
            found, refused = error.found, error
    show(_table(model, found, parts.shared), markdown=markdown)
    if record is not None:
        rows = [row.to_json() for row in found.reports.rows]
        sets_and_tasks = {"sets": found.reports.pairs, "tasks": found.reports.tasks}
        write_json(record, {**about, **sets_and_tasks, "variants": rows})
    if refused is not None:
        raise refused
    data = {"--data-dir": (given_data_dir(data_dir), None)}
    if output is not None:
        next_command("eval", "sts", output, *given_options(data))
        return
    given = given_options(
        {
            "--texts": (texts, None),
            "--text-column": (text_column, None),
            "--title-column": (title_column, None),
            "--sets": (sets, None),
            "--tolerance": (tolerance, TOLERANCE),
            "--seed": (seed, 0),
            "--pooling": (pooling, None),
            "--max-length": (max_length, None),
            **data,
        }
    )
    _say_next(found, ["compress", model, *given], student, tolerance)


def _pairs(sets: str | None, data_dir: Path | None) -> list[ScoredPairs]:
    from sentemb.data.sts import stsb_dev
    from sentemb.evaluation.sts import load_sets

    if sets is not None:
        return load_sets(split_names(sets), data_dir=data_dir)
    if (found := stsb_dev(data_dir)) is not None:
        return [found]
    data = given_options({"--data-dir": (given_data_dir(data_dir), None)})
    fetch = shlex.join(["sentemb", "data", "fetch", "stsb", *data])
    say(f"STS is skipped: STS-B is not in the data folder. Name --sets, or get it with `{fetch}`")
    return []


def _table(model: str, found: Compressed, shared: int) -> Table:
    from sentemb.report.table import Table

    reports = found.reports
    rows: list[tuple[str, ...]] = []
    for row in reports.rows:
        cells = (f"{row.bytes / _MEGA:.1f}", f"{row.vector_bytes:,}", f"{row.speed:,.0f}")
        rows.append((row.name, *cells, *_cells(row.sts), *_cells(row.ndcg), "*" if row.best else ""))
    delta = ("95 %", "p")
    rows += [(name, *["–"] * (len(rows[0]) - 2), "") for names in found.missing for name in names.split(", ")]
    return Table(
        title=f"Smaller variants of {model}",
        header=("variant", "MB", "bytes/vector", "texts/s", "ΔSTS", *delta, "ΔNDCG@10", *delta, "best"),
        rows=tuple(rows),
        notes=(
            *(f"{name}: {meaning}" for name, meaning in found.meanings.items()),
            "Δ: difference from the model in points. STS: Spearman on "
            f"{', '.join(reports.pairs) or 'no pairs'}. "
            f"NDCG@10: queries generated from the documents, {', '.join(reports.tasks) or 'none'}",
            f"texts/s: measured on {reports.texts:,} of the documents, interleaved. best: no other row is as "
            "good "
            "or better in every column",
            *_note_on(shared, found),
            *(f"{names} skipped: {reason}" for names, reason in found.missing.items()),
        ),
    )


def _note_on(shared: int, found: Compressed) -> list[str]:
    """Return a note if variants are evaluated on documents that they were calibrated on."""
    from sentemb.compression.variants import CALIBRATION_TEXTS
    from sentemb.compression.write import EVALUATION_DOCUMENTS

    calibrated = any(name.startswith(_CALIBRATED) for name in found.meanings)
    if not shared or not found.reports.tasks or not calibrated:
        return []
    return [
        f"{shared:,} of the documents that calibrated int8 and layers are also searched, so their ΔNDCG@10 "
        f"may be too optimistic; pass at least {EVALUATION_DOCUMENTS + CALIBRATION_TEXTS:,} documents to "
        "avoid this"
    ]


def _cells(one: Difference | None) -> tuple[str, str, str]:
    if one is None or one.interval is None:
        return "–", "–", "–"
    low, high = one.interval
    p = "<.001" if one.p < 0.001 else f"{one.p:.3f}".lstrip("0")
    return f"{one.size:+.2f}", f"{low:+.2f} to {high:+.2f}", p


def _say_next(found: Compressed, command: Sequence[str], student: Path | None, tolerance: float) -> None:
    """Suggest a variant to write, and the command that does so."""
    whole, *others = found.reports.rows
    points = f"{tolerance:g} point{'' if tolerance == 1 else 's'}"
    fit = [row for row in others if row.quality_drop <= tolerance]
    if not fit:
        say(f"every variant loses more than {points}")
        return
    chosen = max(fit, key=lambda row: row.speed)
    if chosen.speed > whole.speed:
        say(f"fastest variant that loses at most {points}: {chosen.name}")
    else:
        chosen = min(fit, key=lambda row: (row.bytes, row.vector_bytes))
        say(f"no variant that loses at most {points} is faster than the model. The smallest is {chosen.name}")
    written = [] if student is None or chosen.name != "student" else ["--student", student]
    next_command(*command, *written, "--only", chosen.name, "--write", chosen.name, "-o", "FOLDER")
