"""Tables of texts that commands make, which the readers read back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from sentemb._files import new_file, refuse_existing, refuse_unusable_output, sha256_of, write_json
from sentemb.errors import InputError

Columns = Mapping[str, Sequence[Any]]


def check_output(
    path: Path, inputs: Iterable[str | None], *, overwrite: bool, cache: Path | None = None
) -> None:
    """Refuse a name of no format, and one that would replace a file: before hours of work."""
    _check_format(path)
    refuse_unusable_output(path, inputs, cache=cache)
    refuse_existing(path, overwrite=overwrite)


def write_table(path: Path, columns: Columns, manifest: Mapping[str, Any] | None = None) -> None:
    """Write a table and, if given, beside it how it was made."""
    _check_format(path)
    with new_file(path) as file:
        _WRITERS[path.suffix](file, columns)
    if manifest is not None:
        rows = len(next(iter(columns.values())))
        described = {**manifest, "columns": list(columns), "rows": rows, "sha256": sha256_of(path)}
        write_json(path.with_name(f"{path.name}.manifest.json"), described)


def _check_format(path: Path) -> None:
    if path.suffix not in _WRITERS:
        raise InputError(
            f"cannot write {path}: the extension is not a known format", f"use one of {', '.join(_WRITERS)}"
        )


def by_column(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as columns."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _csv(file: BinaryIO, columns: Columns) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    text.detach()  # closing is the business of whoever opened it


def _jsonl(file: BinaryIO, columns: Columns) -> None:
    for row in zip(*columns.values(), strict=True):
        line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
        file.write(f"{line}\n".encode())


def _parquet(file: BinaryIO, columns: Columns) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)


_WRITERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
