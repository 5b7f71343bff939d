"""`sentemb data overlap`: what of the test sets is in a training text."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from pydantic import Field

from sentemb.cli import options as opt
from sentemb.cli.console import next_command, next_step, printable, say, show
from sentemb.errors import InputError

_SHOWN = 100  # characters of an example


class _Options(opt.Options):
    train: Annotated[str, typer.Argument()]
    """Training texts: file, folder, URI, hub id, catalogue name, output folder of `sentemb encode`, or
    index."""
    sets: str = "sts"
    """Test sets, separated by commas: catalogue names, files, sts (STS12 to STS16, STS-B, SICK-R) or transfer
    (SentEval)."""
    columns: opt.Columns = None
    set_column: list[str] | None = None
    """Column to read from test sets that are files. The default is all text columns. Repeat for several."""
    examples: int = Field(3, ge=0)
    """Number of overlapping texts to show per test set."""
    output: opt.NewFile = None
    """JSON file with all overlapping texts."""
    overwrite: opt.Overwrite = False
    data_dir: opt.DataDir = None
    allow_count_mismatch: opt.AllowCountMismatch = False


@opt.grouped
def overlap(options: _Options) -> None:
    """Count texts of test sets in training texts: copies and parts of longer texts."""
    from sentemb._files import write_json
    from sentemb._uris import without_secrets
    from sentemb.data import get, read_rows
    from sentemb.data.contamination import find_contamination, load_held_out
    from sentemb.data.files import Row
    from sentemb.data.sources import kind_of
    from sentemb.report.table import Table
    from sentemb.search.negatives import documents_at

    train, shown, data_dir = options.train, without_secrets(options.train), options.data_dir
    names, chosen = opt.split_names(options.sets), opt.split_columns(options.columns)
    options.check_output(train, *names)
    check_rows = not options.allow_count_mismatch
    held_out = load_held_out(
        names, columns=options.set_column or None, data_dir=data_dir, check_rows=check_rows
    )
    began = time.perf_counter()

    def report(count: int) -> None:
        say(f"{count:,} texts read, {count / (time.perf_counter() - began):,.0f} per second")

    documents = documents_at(train)
    if documents is None:
        named = chosen or (get(train).text_columns if kind_of(train) == "entry" else None)
        rows = read_rows(train, columns=named, data_dir=data_dir)
    elif chosen:
        raise InputError("--columns applies to files, but this folder contains documents", "remove --columns")
    else:
        rows = (Row(one.location or shown, {"text": one.text}) for one in documents)
    texts, overlaps = find_contamination(rows, held_out, progress=report)
    report(texts)
    if options.output is not None:
        sets = [one.to_json() for one in overlaps]
        write_json(options.output, {"train": shown, "columns": chosen, "texts": texts, "sets": sets})
    table = []
    for one in overlaps:
        counts = (one.texts, one.count("exact"), one.count("inside"))
        share = f"{len(one.findings) / max(one.texts, 1):.1%}"
        cells = (*(f"{count:,}" for count in counts), share, f"{one.rows:,}", f"{one.whole_rows:,}")
        table.append((f"{one.name} {one.split}".strip(), *cells))
    notes = (
        "exact: the same words, regardless of letter case, punctuation and Unicode form; inside: part of a "
        "longer training text; each text counts once",
    )
    header = ("set", "texts", "exact", "inside", "total", "rows", "complete rows")
    title = f"Texts of test sets in the {texts:,} texts of {shown}"
    show(Table(title, header, tuple(table), notes))
    for one in overlaps:
        for finding in one.findings[: options.examples]:
            typer.echo(f"{one.name}, {finding.how}, {finding.location}: {_short(finding.text)}")
            if finding.how != "exact":
                typer.echo(f"    training text: {_short(finding.found)}")
    if options.output is None:
        next_step("run the command again with --output FILE.json to save all overlapping texts")
    else:
        next_command("train", "sg-opt", "--data", train, "--output", "FOLDER")


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
