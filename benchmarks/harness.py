"""What the measurements share: the command line, facts about the machine, processes, tables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._files import write_json
from sentemb.evaluation.environment import hardware, library_versions


def options(doc: str, **given: Any) -> argparse.Namespace:
    """Read the command line: an option for each keyword, required where the value is a type.

    A pair of a type and None is an option without a default, False a switch, a list several words.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, type):
            parser.add_argument(flag, type=value, required=True)
        elif value is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(value, tuple):
            parser.add_argument(flag, type=value[0], default=value[1])
        elif isinstance(value, list):
            kind = type(value[0]) if value else str
            parser.add_argument(flag, nargs="+", type=kind, default=value)
        else:
            parser.add_argument(flag, type=type(value), default=value)
    return parser.parse_args()


def run(
    doc: str, verbs: Mapping[str, tuple[Callable[[argparse.Namespace], None], Mapping[str, Any]]]
) -> None:
    """Run the verb that the command line names, with its options."""
    if len(sys.argv) < 2 or sys.argv[1] not in verbs:
        raise SystemExit(doc)
    work, given = verbs[sys.argv.pop(1)]
    work(options(doc, **given))


def about() -> dict[str, Any]:
    """Return the versions and the machine."""
    return {"versions": library_versions(), "hardware": hardware()}


def save(path: Path | None, **values: Any) -> None:
    """Write results with the versions and the machine, if there is a file for them."""
    if path is not None:
        write_json(path, {**about(), **values})


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> str:
    """Return a table, numbers to the right of the names."""
    lines = [header, [*["---"] * names, *["---:"] * (len(header) - names)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def resident(process: int | str = "self") -> float:
    """Return MiB of memory that a process holds now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cells(row: Mapping[str, Any], forms: Mapping[str, str]) -> list[str]:
    """Return some values of a row as text, a dash for each that is missing."""
    return ["–" if row.get(name) is None else format(row[name], form) for name, form in forms.items()]
