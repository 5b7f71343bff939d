"""`sentemb compress`: what smaller and faster forms of a model cost on one's own text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.console import next_step, progress_bar, say, show
from sentemb.cli.options import DataDir, Markdown, Model, Overwrite, Seed, split_names
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.compression.write import Compressed
    from sentemb.data.sts import ScoredPairs
    from sentemb.evaluation import Difference
    from sentemb.report.table import Table

_DEV = "stsb"
_MEGA = 1e6
_CALIBRATED = ("int8", "layers")  # how the names of variants begin that texts decide


def compress(
    model: Model,
    texts: Annotated[str, typer.Option(help="Your documents: file, folder, or folder in BEIR's layout.")],
    column: Annotated[str | None, typer.Option(help="Column of the text.")] = None,
    sets: Annotated[
        str | None,
        typer.Option(help="STS sets or your own files of scored pairs; STS-B's dev set where it is there."),
    ] = None,
    student: Annotated[
        Path | None, typer.Option(help="A student to price beside: a folder that sentemb distill wrote.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Variants, separated by commas; all by default.")] = None,
    write: Annotated[str | None, typer.Option(help="The variant to write.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write it to.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Points of STS or NDCG@10 that it may lose.")] = 1.0,
    record: Annotated[Path | None, typer.Option(help="JSON file with every number.")] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
    markdown: Markdown = False,
) -> None:
    """Price the smaller forms of a model on your own documents, and write one.

    float16 and bf16, int8 for ONNX Runtime and OpenVINO, fewer layers, fewer dimensions, rounded vectors:
    bytes, texts a second, and what each loses on scored pairs and on queries cut from your documents.
    """
    from sentemb._files import refuse_existing, refuse_output_over_input, write_json
    from sentemb.compression import compress as run
    from sentemb.compression import divide_documents
    from sentemb.data.own_documents import read_own_documents
    from sentemb.data.pseudo_tasks import pseudo_tasks
    from sentemb.data.sources import describe_source
    from sentemb.evaluation.environment import command_line, library_versions
    from sentemb.modules.cards import base_terms, public_name

    if (write is None) != (output is None):
        raise InputError("--write and --output belong together", "name the variant and the folder for it")
    if output is not None:
        refuse_output_over_input(output, [model, texts])
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise InputError(f"{output} already exists", "choose another output or remove it")
    if record is not None:
        refuse_output_over_input(record, [texts])
        refuse_existing(record, overwrite=overwrite)
    documents = read_own_documents(texts, text_column=column, data_dir=data_dir)
    parts = divide_documents(documents, seed=seed)
    tasks = pseudo_tasks(parts.priced, count=150, most=len(parts.priced), seed=seed)
    pairs = _pairs(sets, data_dir)
    if not tasks:
        say("too few documents to cut queries from: NDCG@10 is left out")
    about = {
        "model": public_name(model),
        "texts": describe_source(texts, data_dir=data_dir),
        "command": shlex.join(["sentemb", *command_line()[1:]]),
        "calibration": {"texts": len(parts.calibration), "priced": parts.shared},
        "seed": seed,
        "versions": library_versions(),
        "terms": base_terms(model),
    }
    with progress_bar() as progress:
        found = run(
            model,
            parts.calibration,
            pairs=pairs,
            tasks=tasks,
            student=student,
            only=() if only is None else split_names(only),
            wanted=write,
            output=output,
            tolerance=tolerance,
            seed=seed,
            about=about,
            progress=progress,
        )
    if record is not None:
        rows = [row.to_json() for row in found.prices.rows]
        sets_and_tasks = {"sets": found.prices.pairs, "tasks": found.prices.tasks}
        write_json(record, {**about, **sets_and_tasks, "variants": rows})
    show(_table(model, found, parts.shared), markdown=markdown)
    options = {"--texts": texts, "--column": column, "--sets": sets}
    _say_next(found, model, options, student, output, tolerance)


def _pairs(sets: str | None, data_dir: Path | None) -> list[ScoredPairs]:
    from sentemb.evaluation.sts import load_sets

    if sets is not None:
        return load_sets(split_names(sets), data_dir=data_dir)
    try:
        return load_sets([_DEV], split="dev", data_dir=data_dir)
    except InputError:
        say("STS-B is not there (sentemb data fetch stsb), and no --sets are named: STS is left out")
        return []


def _table(model: str, found: Compressed, shared: int) -> Table:
    from sentemb.report.table import Table

    prices = found.prices
    rows = []
    for row in prices.rows:
        cells = (f"{row.bytes / _MEGA:.1f}", f"{row.vector_bytes:,}", f"{row.speed:,.0f}")
        rows.append((row.name, *cells, *_cells(row.sts), *_cells(row.ndcg), "*" if row.best else ""))
    delta = ("95 %", "p")
    return Table(
        title=f"Smaller forms of {model}",
        header=("variant", "MB", "bytes/vector", "texts/s", "ΔSTS", *delta, "ΔNDCG@10", *delta, "best"),
        rows=tuple(rows),
        notes=(
            *(f"{name}: {meaning}" for name, meaning in found.meanings.items()),
            f"Δ in points from float32: Spearman on {', '.join(prices.pairs) or 'no pairs'}; NDCG@10 on "
            f"queries cut from the documents, {', '.join(prices.tasks) or 'none'}",
            f"texts/s: {prices.texts:,} of the documents, encoded in turns; best: no other row is as good "
            "or better in every column",
            *_note_on(shared, found),
            *found.missing,
        ),
    )


def _note_on(shared: int, found: Compressed) -> list[str]:
    """What is to be said where variants were calibrated on documents that they are priced on."""
    from sentemb.compression.division import PRICED
    from sentemb.compression.variants import CALIBRATED

    calibrated = any(name.startswith(_CALIBRATED) for name in found.meanings)
    if not shared or not found.prices.tasks or not calibrated:
        return []
    return [
        f"{shared:,} of the documents that int8 and layers were calibrated on are also searched, so that "
        f"their ΔNDCG@10 may be too good: {PRICED + CALIBRATED:,} documents keep both apart"
    ]


def _cells(one: Difference | None) -> tuple[str, str, str]:
    if one is None or one.interval is None:
        return "–", "–", "–"
    low, high = one.interval
    p = "<.001" if one.p < 0.001 else f"{one.p:.3f}".lstrip("0")
    return f"{one.size:+.2f}", f"{low:+.2f} to {high:+.2f}", p


def _say_next(
    found: Compressed,
    model: str,
    options: Mapping[str, str | None],
    student: Path | None,
    output: Path | None,
    tolerance: float,
) -> None:
    if output is not None:
        next_step(f"sentemb eval sts {shlex.quote(str(output))}")
        return
    whole, *others = found.prices.rows
    fit = [row for row in others if row.loss <= tolerance]
    if not fit:
        say(f"no variant loses {tolerance:g} points or less")
        return
    chosen = max(fit, key=lambda row: row.speed)
    if chosen.speed > whole.speed:
        say(f"fastest that loses at most {tolerance:g} points: {chosen.name}")
    else:
        chosen = min(fit, key=lambda row: row.bytes)
        say(
            f"nothing that loses at most {tolerance:g} points is faster than the model itself; "
            f"smallest: {chosen.name}"
        )
    given = {name: value for name, value in options.items() if value is not None}
    if student is not None and chosen.name == "student":
        given["--student"] = str(student)
    parts = [part for option in given.items() for part in option]
    command = shlex.join(["sentemb", "compress", model, *parts])
    next_step(f"{command} --only {chosen.name} --write {chosen.name} -o FOLDER")
