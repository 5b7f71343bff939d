"""Printing of every verb: messages to standard error, results to standard output."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import typer

from sentemb._commands import format_command
from sentemb._uris import without_secrets_in_prose
from sentemb.encoding.truncation import report_pending

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from sentemb.report.table import Table

# Control characters except tabs and line ends, and those that change the direction of writing.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
Marked = Mapping[tuple[int, int], Sequence[tuple[int, int]]]
"""Places (start, stop) in cells that a terminal shows in bold, by row and column."""
_SECONDS_BETWEEN_LINES = 30  # of progress, where standard error is a file
_GAP = 2  # between two columns
_NAMES = 0.5  # the share of a terminal's width that names may take before they are folded


def printable(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def say(text: str) -> None:
    """Print a message for the user to standard error, without the credentials that URIs hold."""
    typer.echo(printable(without_secrets_in_prose(text)), err=True)


def next_step(text: str) -> None:
    """Print what to do next, as the last line."""
    report_pending(say)
    say(f"next: {text}")


def next_command(*words: object, comment: str = "") -> None:
    """Print the command to type next, from its verb and arguments, as the last line."""
    next_step(format_command(*words) + (f"  # {comment}" if comment else ""))


def also_command(*words: object, comment: str) -> None:
    """Print another command that may help, before the one to type next."""
    say(f"also: {format_command(*words)}  # {comment}")


@contextlib.contextmanager
def each_warning_once() -> Iterator[None]:
    """Print a warning once, though a command may load a model or read a file several times."""
    reported: set[tuple[str, str]] = set()

    def is_new(record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING or record.exc_info:
            return True
        key = str(record.msg), repr(record.args)
        new = key not in reported
        reported.add(key)
        return new

    handler = logging.lastResort
    assert handler is not None  # Python's own, for a program that sets up no logging
    handler.addFilter(is_new)
    try:
        yield
    finally:
        handler.removeFilter(is_new)


def error_line(message: str) -> str:
    """Return the one line that an error of the user is, without the credentials that URIs hold."""
    return f"sentemb: error: {printable(without_secrets_in_prose(' '.join(message.split())))}\n"


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on standard error; takes a stage and how many of how many are done.

    Where that is not a terminal, a line is printed instead, at most every half minute.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        printed = time.monotonic()

        def report(stage: str, done: int, total: int) -> None:
            nonlocal printed
            if bar.disable and time.monotonic() - printed >= _SECONDS_BETWEEN_LINES:
                say(f"{stage}: {done:,} of {total:,}" if total else f"{stage}: {done:,}")
                printed = time.monotonic()
            bar.update(task, description=printable(stage), completed=done, total=total or None)

        yield report


def show(table: Table, *, markdown: bool = False, marked: Marked | None = None) -> None:
    """Print a table: columns that fit a terminal, markdown on request and where the output is piped."""
    if markdown or not sys.stdout.isatty():
        typer.echo(printable(table.markdown()), nl=False)
        return
    from rich.console import Console

    console = Console()
    if table.title:
        console.print(printable(table.title), markup=False, highlight=False, style="bold")
    for columns in _blocks(table, console.width):
        console.print(_rich(table, columns, marked or {}))
    for note in table.notes:
        console.print(f"note: {printable(note)}", markup=False, highlight=False)


def _blocks(table: Table, width: int) -> Iterator[Sequence[int]]:
    """Yield the columns of each block: the names, and the numbers that fit next to them."""
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(len(line) for cell in cells for line in printable(cell).split("\n")) for cells in columns]
    room = width - min(sum(widths[: table.names]) + _GAP * table.names, int(_NAMES * width))
    block: list[int] = []
    for column in range(table.names, len(widths)):
        if block and sum(widths[one] + _GAP for one in (*block, column)) > room:
            yield [*range(table.names), *block]
            block = []
        block.append(column)
    yield [*range(table.names), *block]


def _rich(table: Table, columns: Sequence[int], marked: Marked) -> RichTable:
    from rich.table import Table as RichTable
    from rich.text import Text

    printed = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in columns:
        name, is_name = printable(table.header[column]), column < table.names
        justify: Literal["left", "right"] = "left" if is_name else "right"
        printed.add_column(name, justify=justify, overflow="fold", no_wrap=not is_name)
    group = ""
    for number, row in enumerate(table.rows):
        if table.groups and table.groups[number] != group:
            group = table.groups[number]
            printed.add_row(Text(printable(group), style="italic"))
        cells = []
        for column in columns:
            style = "bold" if (number, column) in table.best else ""
            parts = _parts(row[column], marked.get((number, column), ()))
            cells.append(Text.assemble(*parts, style=style))
        printed.add_row(*cells)
    return printed


def _parts(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text with their style. Escaping changes lengths, so each is escaped alone."""
    end = 0
    for start, stop in spans:
        yield printable(text[end:start]), ""
        yield printable(text[start:stop]), "bold"
        end = stop
    yield printable(text[end:]), ""
