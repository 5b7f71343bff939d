"""`sentemb plan`: hours, bytes and commands for more text than one wants to try with."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sentemb.cli.console import next_command, progress_bar, say, show
from sentemb.cli.options import DEFAULT_ENCODER, EncoderOptions, Markdown, Named, Overwrite, grouped
from sentemb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentemb.report.table import Table
    from sentemb.search.forecast import Forecast
    from sentemb.search.laws import Line

_MOST = 10**12


@grouped
def plan(
    count: Annotated[str, typer.Argument(help="Number of texts, such as 10000000 or 1e9.")],
    options: EncoderOptions,
    texts: Annotated[
        str | None,
        typer.Option(
            help="Sample of your texts: file, folder or URI. The default is Python's own documentation."
        ),
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="Column with the text of --texts.")] = None,
    model: Named = DEFAULT_ENCODER,
    sample: Annotated[
        int, typer.Option(min=1, max=10**7, help="Maximum number of texts to measure with.")
    ] = 20_000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes for encoding.")] = 1,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Number format of the encoded vectors.")
    ] = "float16",
    kind: Annotated[
        Literal["auto", "flat", "hnsw", "ivfpq"],
        typer.Option(help="Kind of the vector index. auto chooses by size."),
    ] = "auto",
    memory_budget: Annotated[
        str | None,
        typer.Option(
            help="Maximum memory of the index on one machine, such as 64GB. The default is 2GiB, or the "
            "minimum if that is more."
        ),
    ] = None,
    recall: Annotated[
        float | None, typer.Option(min=0, max=1, help="Required recall@10 of the index, from 0 to 1.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file for all numbers.")] = None,
    overwrite: Overwrite = False,
    markdown: Markdown = False,
) -> None:
    """Estimate time, disk and memory for encoding and indexing a corpus, from small runs on this machine.

    Each step is measured at three sizes and extrapolated; the formula is printed. Speeds are those of this
    machine under its current load.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_json
    from sentemb.encoding.resolve import check_address
    from sentemb.search.forecast import forecast
    from sentemb.search.plan import parse_bytes

    number = _number(count)
    budget = None if memory_budget is None else parse_bytes(memory_budget)
    if output is not None:
        refuse_unusable_output(output, [texts, model], cache=options.cache_dir)
        refuse_existing(output, overwrite=overwrite)
    check_address(model, data_dir=options.data_dir)
    some = list(itertools.islice(_texts(texts, text_column, options.data_dir), sample))
    if texts is None:
        say(
            "measured on Python's own documentation; the length of texts matters, so pass a sample of yours "
            "with --texts"
        )
    with progress_bar() as bar:
        found = forecast(
            number,
            some,
            options.arguments(model),
            kind=kind,
            memory_budget=budget,
            workers=workers,
            dtype=dtype,
            progress=bar,
        )
    if output is not None:
        write_json(output, found.to_json())
    show(_table(found), markdown=markdown)
    typer.echo(_verdict(found, recall))
    ways = ("--model", model, "--workers", workers, "--dtype", dtype)
    next_command("encode", texts or "DATA", "-o", "vectors", *ways)
    limit = [] if memory_budget is None else ["--memory-budget", memory_budget]
    next_command("index", "build", "vectors", "-o", "index", "--kind", found.plan.kind, *limit)
    next_command("serve", "index")


def _number(text: str) -> int:
    """Read a number of texts."""
    try:
        number = float(text)
    except (ValueError, OverflowError):
        number = 0.0
    if not (1 <= number <= _MOST and number == int(number)):
        raise InputError(f"{text!r} is not a number of texts from 1 to {_MOST:,}", "write 10000000 or 1e7")
    return int(number)


def _texts(path: str | None, column: str | None, data_dir: Path | None) -> Iterable[str]:
    """Texts to measure with."""
    if path is None:
        if column is not None:
            raise InputError("--text-column works only with --texts", "pass both or neither")
        from sentemb.data.docstrings import stdlib_documents

        return (document.text for document in stdlib_documents())
    from sentemb.data.tables import NO_COLUMN
    from sentemb.search import read_documents
    from sentemb.search.documents import as_documents

    documents = as_documents(read_documents(path, text_column=column, id_column=NO_COLUMN, data_dir=data_dir))
    return (document.text for document in documents)


def _table(found: Forecast) -> Table:
    """Each figure with its measurements and its law."""
    from sentemb.report.table import Table
    from sentemb.search.plan import format_bytes

    def row(line: Line, label: str) -> tuple[str, ...]:
        told = format_bytes if line.unit == "bytes" else _seconds
        return label, *map(told, (*line.measured, line.forecast)), line.formula

    rows = [
        row(found.encoding, "time: sentemb encode"),
        *(row(line, f"time: index build, {line.name}") for line in found.building),
        *(row(line, f"disk: {line.name}") for line in found.disk),
        *(row(line, f"memory: {line.name}") for line in found.memory),
    ]
    sizes = [f"{size:,}" for size in found.sizes]
    return Table(
        title=f"{found.count:,} texts, {found.plan.factory} of {found.dimension} dimensions",
        header=("step", *sizes, f"{found.count:,}", "formula for n texts, in s or bytes"),
        rows=tuple(rows),
    )


def _verdict(found: Forecast, wanted: float | None) -> str:
    """The whole in a few sentences."""
    from sentemb.search.plan import format_bytes

    disk = sum(line.forecast for line in found.disk)
    memory = max(line.forecast for line in found.memory)
    encoding = found.encoding.forecast
    said = [
        f"Verdict: {_seconds(found.seconds)} in total, of which {_seconds(encoding)} for encoding with "
        f"{found.workers} {'process' if found.workers == 1 else 'processes'}; {format_bytes(disk)} of disk, "
        f"{format_bytes(memory)} of memory; {found.plan.reason}."
    ]
    if found.machines > 1:
        said.append(
            f"This is for one of {found.machines} machines with {found.count:,} texts each, because the "
            "whole index "
            "exceeds the memory budget."
        )
    if found.recall is None:
        said.append("Recall was not measured.")
    else:
        said.append(f"recall@10 was {found.recall:.3f} with {found.sizes[-1]:,} texts.")
        if wanted is not None and found.recall < wanted:
            said.append(f"This is below --recall {wanted:g}: raise --memory-budget, or choose --kind hnsw.")
    return " ".join(said)


def _seconds(seconds: float) -> str:
    """A time for people."""
    for most, size, unit in ((100, 1, "s"), (6000, 60, "min"), (360_000, 3600, "h")):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
