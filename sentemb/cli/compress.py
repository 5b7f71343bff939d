"""`sentemb compress`: smaller and faster variants of a model, measured on your own documents."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, progress_bar, say, show
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.compression import VariantReports
    from sentemb.data.sts import ScoredPairs

_DELTA = ("95 %", "p")
_CALIBRATED = ("int8-", "layers-")  # prefixes of variants that depend on the calibration texts


class _Options(opt.Options):
    model: Annotated[str, typer.Argument(autocompletion=opt.bundled_models)]
    """Model to compress: folder, hub id or bundled model."""
    texts: str = Field(description=opt.DOCUMENTS)
    text_column: opt.TextColumn = None
    title_column: opt.TitleColumn = None
    sets: str | None = None
    """STS sets or your own files of scored pairs, separated by commas. The default is the dev split of STS-B,
    if it is available."""
    student: Path | None = None
    """Student to compare with the variants: an output folder of `sentemb distill`."""
    only: str | None = None
    """Variants to try, separated by commas. The default is all."""
    write: str | None = None
    """Variant to write to --output."""
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None
    """Folder for the variant of --write."""
    tolerance: float = Field(1.0, ge=0)
    """Points of STS or NDCG@10 that a written variant may lose."""
    record: Path | None = None
    """JSON file for all numbers."""
    overwrite: opt.Overwrite = False
    seed: opt.Seed = 0
    pooling: opt.Pooling = None
    max_length: opt.MaxLength = None
    data_dir: opt.DataDir = None


@opt.grouped
def compress(options: _Options) -> None:
    """Measure smaller variants of a model on your own documents, and write one.

    The variants are float16 and bfloat16, int8 for ONNX Runtime and OpenVINO, fewer layers, fewer dimensions,
    quantized vectors, and an int8 table for static models. The table lists their size, their speed, and their
    quality drop on scored pairs and on queries generated from your documents.
    """
    from sentemb._files import refuse_unusable_output, write_json
    from sentemb.compression import QualityDropError, divide_documents
    from sentemb.compression import compress as run
    from sentemb.data.documents import read_unique_documents
    from sentemb.data.generated_queries import generate_queries
    from sentemb.data.sources import describe_source
    from sentemb.evaluation.environment import command_line

    texts, output, record = options.texts, options.output, options.record
    inputs = [options.model, texts, options.student, *opt.split_names(options.sets)]
    if (options.write is None) != (output is None):
        raise InputError("--write and --output need each other", "pass --write VARIANT --output FOLDER")
    if output is not None:
        refuse_unusable_output(output, inputs)
    if record is not None:
        options.check_output(*inputs, output=record)
    documents = read_unique_documents(texts, **options.values("text_column", "title_column", "data_dir"))
    parts = divide_documents(documents, seed=options.seed)
    tasks = generate_queries(parts.evaluation, count=150, most=len(parts.evaluation), seed=options.seed)
    pairs = _pairs(options)
    if not tasks:
        say("there are too few documents to generate queries from: NDCG@10 is skipped")
    about = {
        "texts": describe_source(texts, data_dir=options.data_dir),
        "command": shlex.join(["sentemb", *command_line()[1:]]),
        "calibration": {"texts": len(parts.calibration), "evaluated": parts.shared},
    }
    refused = None
    loading = options.values("model", "student", "output", "overwrite", "tolerance", "pooling", "max_length")
    with progress_bar() as progress:
        try:
            found = run(
                texts=parts.calibration,
                pairs=pairs,
                tasks=tasks,
                only=opt.split_names(options.only),
                wanted=options.write,
                **loading,
                seed=options.seed,
                about=about,
                progress=progress,
            )
        except QualityDropError as error:  # it holds all reports
            found, refused = error.found, error
    _show_table(options.model, found, parts.shared)
    if record is not None:
        write_json(record, found.to_json())
    if refused is not None:
        raise refused
    if output is not None:
        next_command("eval", "sts", output, *options.flags("data_dir"))
    else:
        propose(found, options)


def _pairs(options: _Options) -> list[ScoredPairs]:
    from sentemb.data.sts import stsb_dev
    from sentemb.evaluation.sts import load_sets

    if options.sets is not None:
        return load_sets(opt.split_names(options.sets), data_dir=options.data_dir)
    if (found := stsb_dev(options.data_dir)) is not None:
        return [found]
    fetch = shlex.join(["sentemb", "data", "fetch", "stsb", *options.flags("data_dir")])
    say(f"STS is skipped: STS-B is not in the data folder. Name --sets, or get it with `{fetch}`")
    return []


def _show_table(model: str, found: VariantReports, shared: int) -> None:
    from sentemb.compression.variants import CALIBRATION_TEXTS
    from sentemb.compression.write import EVALUATION_DOCUMENTS
    from sentemb.report.table import Table

    rows: list[tuple[str, ...]] = []
    for row in found.rows:
        quality: list[str] = []
        for one in (row.sts, row.ndcg):
            if one is None or one.interval is None:
                quality += ["–"] * 3
                continue
            low, high = one.interval
            p = "<.001" if one.p < 0.001 else f"{one.p:.3f}".lstrip("0")
            quality += [f"{one.size:+.2f}", f"{low:+.2f} to {high:+.2f}", p]
        cells = (f"{row.bytes / 1e6:.1f}", f"{row.vector_bytes:,}", f"{row.speed:,.0f}")
        rows.append((row.name, *cells, *quality, "*" if row.best else ""))
    rows += [(name, *["–"] * 9, "") for names in found.missing for name in names.split(", ")]
    notes = [f"{name}: {meaning}" for name, meaning in found.meanings.items()]
    notes += [
        "Δ: difference from the model in points. STS: Spearman on "
        f"{', '.join(found.pairs) or 'no pairs'}. "
        f"NDCG@10: queries generated from the documents, {', '.join(found.tasks) or 'none'}",
        f"texts/s: measured on {found.texts:,} of the documents, interleaved. best: no other row is as "
        "good or better in every column",
    ]
    if shared and found.tasks and any(name.startswith(_CALIBRATED) for name in found.meanings):
        notes.append(
            f"{shared:,} of the documents that calibrated int8 and layers are also searched, so their "
            f"ΔNDCG@10 may be too optimistic; pass at least {EVALUATION_DOCUMENTS + CALIBRATION_TEXTS:,} "
            "documents to avoid this"
        )
    notes += [f"{names} skipped: {reason}" for names, reason in found.missing.items()]
    header = ("variant", "MB", "bytes/vector", "texts/s", "ΔSTS", *_DELTA, "ΔNDCG@10", *_DELTA, "best")
    show(Table(f"Smaller variants of {model}", header, tuple(rows), tuple(notes)))


def propose(found: VariantReports, options: _Options) -> None:
    """Propose a variant to write, and the command that does so."""
    whole, *others = found.rows
    points = f"{options.tolerance:g} point{'' if options.tolerance == 1 else 's'}"
    fit = [row for row in others if row.quality_drop <= options.tolerance]
    if not fit:
        say(f"every variant loses more than {points}")
        return
    chosen = max(fit, key=lambda row: row.speed)
    if chosen.speed > whole.speed:
        say(f"fastest variant that loses at most {points}: {chosen.name}")
    else:
        chosen = min(fit, key=lambda row: (row.bytes, row.vector_bytes))
        say(f"no variant that loses at most {points} is faster than the model. The smallest is {chosen.name}")
    names = ("texts", "text_column", "title_column", "sets", "tolerance", "seed", "pooling", "max_length")
    given = options.flags(*names, "data_dir", *(["student"] if chosen.name == "student" else []))
    written = ("--only", chosen.name, "--write", chosen.name, "-o", "FOLDER")
    next_command("compress", options.model, *given, *written)
