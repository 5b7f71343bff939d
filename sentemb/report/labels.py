"""Names of models in tables: base model, method and pooling, read from `labels.toml`."""

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
    """Name of a model in tables.

    Attributes:
        base: Base model. Rows of one base form a group.
        method: Training method.
        pooling: Pooling of the sentence vector.

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
    """Read `labels.toml`: a table for each model, in the order of the rows. The file is optional.

    Example:
        >>> read_labels(Path("records"))
        {}
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return {}
    labels, hint = {}, f"set {', '.join(_FIELDS)} for each model"
    for name, entry in read_toml(path).items():
        if not isinstance(entry, dict):
            raise InputError(f"{path}: {name} is not a table", hint)
        for field in sorted({*entry} ^ {*_FIELDS}):
            problem = "unknown" if field in entry else "missing"
            raise InputError(f"{path}, [{name}]: {field} is {problem}", hint)
        for field, value in entry.items():
            if not isinstance(value, str) or not value:
                wrong = f"{field} is {value!r}, which is not a non-empty string"
                raise InputError(f"{path}, [{name}]: {wrong}", hint)
        labels[name] = Label(**entry)
    return labels


def label_table(table: Table, labels: Mapping[str, Label]) -> Table:
    """Replace model names by labels, and group the rows by base."""
    if not any(row[0] in labels for row in table.rows):
        return table
    order, bases = [*labels], [*dict.fromkeys(label.base for label in labels.values())]

    def place(row: tuple[str, ...]) -> tuple[int, int]:
        label = labels.get(row[0])
        return (len(bases), 0) if label is None else (bases.index(label.base), order.index(row[0]))

    rows = sorted(table.rows, key=place)
    found = [labels.get(row[0]) or Label("", row[0], ABSENT) for row in rows]
    return replace(
        table,
        header=("method", "pooling", *table.header[1:]),
        rows=tuple((one.method, one.pooling, *row[1:]) for one, row in zip(found, rows, strict=True)),
        names=2,
        groups=tuple(one.base for one in found),
    )


def mark_best(table: Table) -> Table:
    """Mark the best scores, as SG-BERT's table 1 does.

    The best score of a base with several rows is bold. With several bases, the best score of a column is
    underlined. In a table without bases, the best score of a column is bold.
    """
    groups = table.groups or ("",) * len(table.rows)
    members = [[row for row, of in enumerate(groups) if of == group] for group in dict.fromkeys(groups)]
    compared = [rows for rows in members if len(rows) > 1]
    every_row = range(len(groups) if len(members) > 1 else 0)
    columns = range(table.names + 1, len(table.header))
    note = f"bold: the best of its {GROUP}" if table.groups else "bold: the best"
    return replace(
        table,
        notes=(*table.notes, *([note] if compared else [])),
        best=frozenset(one for rows in compared for x in columns for one in best_cells(table.rows, rows, x)),
        top=frozenset(one for x in columns for one in best_cells(table.rows, every_row, x)),
    )


def best_cells(cells: Sequence[Sequence[str]], rows: Iterable[int], column: int) -> list[tuple[int, int]]:
    """Return the places of the highest printed mean of a column among some rows."""
    values = {row: float(found.group()) for row in rows if (found := _MEAN.match(cells[row][column]))}
    return [(row, column) for row, value in values.items() if value == max(values.values())]
