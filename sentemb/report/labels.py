"""What the models of a folder of records are called in tables: base model, method and pooling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sentemb.errors import InputError
from sentemb.report.table import ABSENT, GROUP, Table
from sentemb.training.values import read_toml

FILE_NAME = "labels.toml"
_FIELDS = ("base", "method", "pooling")
_MEAN = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True)
class Label:
    """A model in tables.

    Attributes:
        base: What it was made from; the rows of a base are a part of the table.
        method: What was done to it.
        pooling: How its sentence vector is made.

    Example:
        >>> Label("bert-mini", "SimCSE", "cls").method
        'SimCSE'
    """

    base: str
    method: str
    pooling: str

    def __str__(self) -> str:
        return f"{self.method} of {self.base} ({self.pooling})"


def read_labels(folder: Path) -> dict[str, Label]:
    """Read `labels.toml`, which may lie beside records: a table for each model, in the order of the rows.

    Example:
        >>> read_labels(Path("records"))
        {}
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return {}
    return {name: _label_of(path, name, entry) for name, entry in read_toml(path).items()}


def _label_of(path: Path, name: str, entry: object) -> Label:
    hint = f"set {', '.join(_FIELDS)} for each model"
    if not isinstance(entry, dict):
        raise InputError(f"{path}: {name} is not a table", hint)
    if wrong := sorted({*entry} ^ {*_FIELDS}):
        problem = "unknown" if wrong[0] in entry else "missing"
        raise InputError(f"{path}, [{name}]: {wrong[0]} is {problem}", hint)
    for field, value in entry.items():
        if not isinstance(value, str) or not value:
            raise InputError(f"{path}, [{name}]: {field} is {value!r}, which is not a non-empty string", hint)
    return Label(**entry)


def label_table(table: Table, labels: Mapping[str, Label]) -> Table:
    """Call the models of a table by their labels, the bases one after the other."""
    order = {name: place for place, name in enumerate(labels)}
    bases = list(dict.fromkeys(label.base for label in labels.values()))

    def place(row: tuple[str, ...]) -> tuple[int, int]:
        label = labels.get(row[0])
        return (len(bases), 0) if label is None else (bases.index(label.base), order[row[0]])

    if any(row[0] in labels for row in table.rows):
        rows = sorted(table.rows, key=place)
        found = [labels.get(row[0]) or Label("", row[0], ABSENT) for row in rows]
        table = replace(
            table,
            header=("method", "pooling", *table.header[1:]),
            rows=tuple((one.method, one.pooling, *row[1:]) for one, row in zip(found, rows, strict=True)),
            names=2,
            groups=tuple(one.base for one in found),
        )
    return table


def mark_best(table: Table) -> Table:
    """Mark the best scores of a table.

    Bold is the best of a base where it has several rows, underlined the best of a column where there are
    several bases, as in SG-BERT's table 1; a table without bases has its best in bold.
    """
    groups = table.groups or ("",) * len(table.rows)
    members: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    # With one base, its best are the best of all.
    everything = range(len(groups) if len(members) > 1 else 0)
    columns = range(table.names + 1, len(table.header))
    parts = [rows for rows in members.values() if len(rows) > 1]
    note = f"bold: the best of its {GROUP}" if table.groups else "bold: the best"
    return replace(
        table,
        notes=(*table.notes, *([note] if parts else [])),
        best=frozenset(
            cell for rows in parts for column in columns for cell in best_cells(table.rows, rows, column)
        ),
        top=frozenset(cell for column in columns for cell in best_cells(table.rows, everything, column)),
    )


def best_cells(cells: Sequence[Sequence[str]], rows: Iterable[int], column: int) -> list[tuple[int, int]]:
    """The places of the highest mean of a column, as it is printed, among some rows."""
    values = {row: float(found.group()) for row in rows if (found := _MEAN.match(cells[row][column]))}
    return [(row, column) for row, value in values.items() if value == max(values.values())]
