"""`sentemb plan`: time, disk, memory and commands for a corpus of any size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from sentemb.cli.console import next_command, say, show
from sentemb.cli.options import DEFAULT_ENCODER, EncoderOptions, Markdown, Named, Overwrite, grouped
from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.cli.forecast import Forecast, Line
    from sentemb.report.table import Table

_MOST = 10**12


class _Options(EncoderOptions):
    count: Annotated[str, typer.Argument()]
    """Number of texts, such as 10000000 or 1e9."""
    texts: str | None = None
    """Sample of your texts: file, folder or URI. The default is Python's own documentation."""
    text_column: str | None = None
    """Column with the text of --texts."""
    model: Named = DEFAULT_ENCODER
    sample: int = Field(50_000, ge=1, le=10**7)
    """Maximum number of texts to measure with."""
    workers: int = Field(1, ge=1, le=256)
    """Number of processes for encoding."""
    dtype: Literal["float32", "float16"] = "float16"
    """Number format of the encoded vectors."""
    kind: Literal["auto", "flat", "hnsw", "ivfpq"] = "auto"
    """Kind of the vector index. auto chooses by size."""
    memory_budget: str | None = None
    """Maximum memory of the index on one machine, such as 64GB. The default is 2GiB, or the minimum if
    that is more."""
    recall: float | None = Field(None, ge=0, le=1)
    """Required recall@10 of the index, from 0 to 1."""
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None
    """JSON file for all numbers."""
    overwrite: Overwrite = False
    markdown: Markdown = False


@grouped
def plan(options: _Options) -> None:
    """Estimate time, disk and memory for encoding and indexing a corpus, from small runs on this machine.

    Each command is run on a sample and on a quarter of it. The difference is extrapolated, and the formula is
    printed. Speeds are those of this machine under its current load.
    """
    from sentemb._files import refuse_existing, refuse_unusable_output, write_json
    from sentemb.cli.forecast import forecast
    from sentemb.encoding.resolve import check_address
    from sentemb.search.plan import parse_bytes

    texts, output, model = options.texts, options.output, options.model
    count = _number(options.count)
    budget = None if options.memory_budget is None else parse_bytes(options.memory_budget)
    if output is not None:
        refuse_unusable_output(output, [texts, model], cache=options.cache_dir)
        refuse_existing(output, overwrite=options.overwrite)
    check_address(model, data_dir=options.data_dir)
    sample = list(itertools.islice(_texts(texts, options.text_column, options.data_dir), options.sample))
    if texts is None:
        say(
            "measured on Python's own documentation; the length of texts matters, so pass a sample of yours "
            "with --texts"
        )
    measuring = options.values("kind", "workers", "dtype")
    arguments = options.arguments(model)
    found = forecast(count, sample, arguments, most=options.sample, memory_budget=budget, **measuring)
    if output is not None:
        write_json(output, found.to_json())
    show(_table(found), markdown=options.markdown)
    typer.echo(_verdict(found, options.workers, options.recall))
    ways = ("--model", model, "--workers", options.workers, "--dtype", options.dtype)
    next_command("encode", texts or "DATA", "-o", "vectors", *ways)
    kind = ("--kind", found.plan.kind)
    next_command("index", "build", "vectors", "-o", "index", *kind, *options.flags("memory_budget"))
    next_command("serve", "--index", "index")


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
    """Return the texts to measure with."""
    if path is None:
        if column is not None:
            raise InputError("--text-column works only with --texts", "pass both or neither")
        from sentemb.data.docstrings import stdlib_documents

        return (document.text for document in stdlib_documents())
    from sentemb.data.documents import NO_COLUMN
    from sentemb.search import read_documents
    from sentemb.search.documents import as_documents

    documents = as_documents(read_documents(path, text_column=column, id_column=NO_COLUMN, data_dir=data_dir))
    return (document.text for document in documents)


def _table(found: Forecast) -> Table:
    """Return each figure with its measurements and its formula."""
    from sentemb.report.table import Table
    from sentemb.search.plan import format_bytes

    def row(line: Line) -> tuple[str, ...]:
        write = _seconds if line.kind == "time" else format_bytes
        cells = [*map(write, line.measured)]
        return (
            f"{line.kind}: {line.name}",
            *[""] * (2 - len(cells)),
            *cells,
            write(line.forecast),
            line.formula,
        )

    return Table(
        title=f"{found.count:,} texts, {found.plan.factory} of {found.dimension} dimensions",
        header=("step", *(f"{size:,}" for size in found.sizes), f"{found.count:,}", "formula for n texts"),
        rows=tuple(map(row, found.lines)),
    )


def _verdict(found: Forecast, workers: int, wanted: float | None) -> str:
    """Say the whole in a few sentences."""
    from sentemb.search.plan import DEFAULT_MEMORY_BUDGET, format_bytes

    times, disk, memory = (found.all_of(kind) for kind in ("time", "disk", "memory"))
    sentences = [
        f"Verdict: {_seconds(sum(times))} in total, of which {_seconds(times[0])} for "
        f"encoding with {workers} {'process' if workers == 1 else 'processes'}; "
        f"{format_bytes(sum(disk))} of disk, {format_bytes(max(memory))} of memory; {found.plan.reason}."
    ]
    if found.machines > 1:
        sentences.append(
            f"This is for one of {found.machines:,} machines with {found.count:,} texts each, because the "
            "whole index exceeds the memory budget."
        )
    if found.machines_by_default is not None:
        sentences.append(
            f"With {format_bytes(DEFAULT_MEMORY_BUDGET)} for the index of each, it takes "
            f"{found.machines_by_default:,} machines (--memory-budget 2GiB)."
        )
    if found.recall is None:
        sentences.append("Recall was not measured.")
    else:
        sentences.append(f"recall@10 was {found.recall:.3f} with {found.sizes[-1]:,} texts.")
        if wanted is not None and found.recall < wanted:
            sentences.append(
                f"This is below --recall {wanted:g}: raise --memory-budget, or choose --kind hnsw."
            )
    return " ".join(sentences)


def _seconds(seconds: float) -> str:
    """Write a time for people."""
    for most, size, unit in ((100, 1, "s"), (6000, 60, "min"), (360_000, 3600, "h")):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"
