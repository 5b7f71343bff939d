"""Tables of texts that commands write, which the readers read back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentemb._files import new_file, refuse_existing, refuse_unusable_output, sha256_of, write_json
from sentemb.errors import InputError

_FORMATS = (".csv", ".jsonl", ".parquet")


def check_output(
    path: Path, inputs: Iterable[str | None], *, overwrite: bool, cache: Path | None = None
) -> None:
    """Raise InputError for an unknown format, or if a file would be replaced: before hours of work."""
    _check_format(path)
    refuse_unusable_output(path, inputs, cache=cache)
    refuse_existing(path, overwrite=overwrite)


def write_table(
    path: Path, columns: Mapping[str, Sequence[Any]], manifest: Mapping[str, Any] | None = None
) -> None:
    """Write a table and, if given, a manifest next to it that says how it was made."""
    _check_format(path)
    rows = zip(*columns.values(), strict=True)
    with new_file(path) as file:
        if path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
        elif path.suffix == ".csv":
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
            text.detach()  # `new_file` closes the file
        else:
            for row in rows:
                line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
                file.write(f"{line}\n".encode())
    if manifest is not None:
        count = len(next(iter(columns.values())))
        described = {**manifest, "columns": list(columns), "rows": count, "sha256": sha256_of(path)}
        write_json(path.with_name(f"{path.name}.manifest.json"), described)


def by_column(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _check_format(path: Path) -> None:
    if path.suffix not in _FORMATS:
        raise InputError(
            f"cannot write {path}: the extension is not a known format", f"use one of {', '.join(_FORMATS)}"
        )
