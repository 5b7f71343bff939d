"""Printing of every verb: messages to standard error, results to standard output."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sentemb._uris import without_listed_secrets, without_secrets_in_prose
from sentemb.encoding.truncation import report_pending

if TYPE_CHECKING:
    from sentemb.report.table import Table

# Control characters except tabs and line ends, and those that change the direction of writing.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SECONDS_BETWEEN_LINES = 30  # of progress, where standard error is a file
_GAP = 2  # between two columns
_NAMES = 0.5  # the share of a terminal's width that names may take before they are folded


def printable(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def say(text: str) -> None:
    """Print a message for the user to standard error, without the credentials that URIs hold."""
    typer.echo(printable(without_secrets_in_prose(text)), err=True)


def program() -> str:
    """Return what starts sentemb in the user's shell: its name if that is on PATH, else its path."""
    if shutil.which("sentemb") is not None:
        return "sentemb"
    started = sys.argv[0]
    if Path(started).stem == "sentemb" and Path(started).parent != Path() and shutil.which(started):
        return shlex.quote(started)
    return f"{shlex.quote(sys.executable)} -m sentemb"


def format_command(*words: object) -> str:
    """Return the command with these arguments, quoted, without the credentials that URIs hold."""
    return f"{program()} {shlex.join(without_listed_secrets(str(word)) for word in words)}"


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


def show(table: Table) -> None:
    """Print a table: columns that fit a terminal, markdown where the output is piped."""
    if not sys.stdout.isatty():
        typer.echo(printable(table.markdown()), nl=False)
        return
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    if table.title:
        console.print(printable(table.title), markup=False, highlight=False, style="bold")
    names = range(table.names)
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(len(line) for cell in cells for line in printable(cell).split("\n")) for cells in columns]
    room = console.width - min(sum(widths[: table.names]) + _GAP * table.names, int(_NAMES * console.width))
    blocks: list[list[int]] = [[]]
    for column in range(table.names, len(widths)):  # the numbers that fit next to the names
        if blocks[-1] and sum(widths[one] + _GAP for one in (*blocks[-1], column)) > room:
            blocks.append([])
        blocks[-1].append(column)
    for block in blocks:
        printed = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for column in (*names, *block):
            is_name = column in names
            printed.add_column(
                printable(table.header[column]),
                justify="left" if is_name else "right",
                overflow="fold",
                no_wrap=not is_name,
            )
        group = ""
        for number, row in enumerate(table.rows):
            if table.groups and table.groups[number] != group:
                group = table.groups[number]
                printed.add_row(Text(printable(group), style="italic"))
            styles = ("bold" if (number, column) in table.best else "" for column in (*names, *block))
            cells = (printable(row[column]) for column in (*names, *block))
            printed.add_row(*map(Text, cells, styles))
        console.print(printed)
    for note in table.notes:
        console.print(f"note: {printable(note)}", markup=False, highlight=False)
