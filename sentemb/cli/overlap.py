"""`sentemb data overlap`: what of the test sets is in a training text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sentemb.cli.data import DataDir
from sentemb.cli.print_table import print_table

if TYPE_CHECKING:
    from sentemb._tables import Table
    from sentemb.data.contamination import Contamination, SetOverlap

_SHOWN = 100  # characters of an example


def overlap(
    train: Annotated[str, typer.Argument(help="Training text: file, folder, hub id or catalogue name.")],
    sets: Annotated[
        str, typer.Option(help="Catalogue names, files, sts (STS12-16, STS-B, SICK-R), transfer (SentEval).")
    ] = "sts",
    column: Annotated[
        list[str] | None, typer.Option(help="Column of the training text; by default all with text.")
    ] = None,
    set_column: Annotated[
        list[str] | None, typer.Option(help="Column of files among the sets; by default all with text.")
    ] = None,
    nearness: Annotated[
        float, typer.Option(help="Share of common words, in the same order, from which texts are near.")
    ] = 0.9,
    examples: Annotated[int, typer.Option(min=0, help="Texts to show of each set.")] = 3,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file with every text found.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in markdown.")] = False,
    data_dir: DataDir = None,
    allow_count_mismatch: Annotated[
        bool, typer.Option("--allow-count-mismatch", help="Take test sets with missing or extra rows.")
    ] = False,
) -> None:
    """Count the texts of test sets that a training text has too: the same, inside longer ones, nearly."""
    from sentemb._files import refuse_output_over_input, write_json
    from sentemb.data.contamination import find_contamination, load_held_out
    from sentemb.data.sources import read_rows

    names = [name.strip() for name in sets.split(",")]
    if output is not None:
        refuse_output_over_input(output, [train, *names])
    held_out = load_held_out(
        names,
        columns=set_column or None,
        data_dir=data_dir,
        check_rows=not allow_count_mismatch,
    )
    began = time.perf_counter()

    def say(count: int) -> None:
        seconds = time.perf_counter() - began
        typer.echo(f"{count:,} texts read, {count / seconds:,.0f} a second", err=True)

    records = read_rows(train, columns=_columns(train, column), data_dir=data_dir)
    found = find_contamination(records, held_out, nearness=nearness, progress=say)
    say(found.texts)
    if output is not None:
        write_json(output, {"train": train, "columns": column or None, **found.to_json()})
    print_table(_table(train, found), markdown=markdown)
    for one in found.sets:
        _print_examples(one, examples)


def _columns(train: str, column: list[str] | None) -> Sequence[str] | None:
    from sentemb.data.catalogue import get
    from sentemb.data.sources import kind_of

    return column or (get(train).text_columns if kind_of(train) == "entry" else None)


def _table(train: str, found: Contamination) -> Table:
    from sentemb._tables import Table

    rows = []
    for one in found.sets:
        share = len(one.findings) / one.texts if one.texts else 0
        counts = (one.texts, one.count("exact"), one.count("inside"), one.count("near"))
        cells = (*(f"{count:,}" for count in counts), f"{share:.1%}", f"{one.rows:,}", f"{one.whole_rows:,}")
        rows.append((f"{one.name} {one.split}".strip(), *cells))
    return Table(
        title=f"Texts of test sets in the {found.texts:,} texts of {train}",
        header=("set", "texts", "exact", "inside", "near", "found", "rows", "whole rows found"),
        rows=tuple(rows),
        notes=(
            "exact: but for letter case, white space and Unicode form; inside: a part of a longer text",
            f"near: {found.nearness:g} of the words of both, in the same order; a text counts once",
        ),
    )


def _print_examples(one: SetOverlap, count: int) -> None:
    for finding in one.findings[:count]:
        how = f"near {finding.nearness:.2f}" if finding.how == "near" else finding.how
        typer.echo(f"{one.name}, {how}, {finding.location}: {_short(finding.text)}")
        if finding.how != "exact":
            typer.echo(f"    there: {_short(finding.found)}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
