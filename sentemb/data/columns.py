"""Tables of texts: columns for training as a `datasets.Dataset`, and the tables that commands write."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentemb._files import new_file, refuse_existing, refuse_unusable_output, sha256_of, write_json
from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.files import AnyPath, Row, refuse_bare_string
from sentemb.data.locate import DataDir
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

LABEL = "label"
"""Name of the label column, which sentence-transformers' collator looks for."""
_USUAL = ("text", "sentence")
_MEMORY = 256 << 20
_FORMATS = (".csv", ".jsonl", ".parquet")


def load_columns(
    source: AnyPath,
    columns: Sequence[str] | None = None,
    *,
    data_dir: DataDir = None,
    label: str | None = None,
    limit: int | None = None,
) -> Dataset:
    """Load text columns for training; their order determines their roles, not their names.

    Up to 256 MiB of rows stay in memory; more go to a file that is mapped into memory and removed when the
    process ends (a killed one leaves `sentemb-*` in the temporary folder). Nothing is cached between runs.

    Args:
        source: What `read_rows` takes.
        columns: The text columns in the order of their roles: anchor, positive, hard negatives. By default
            those of the catalogue's entry, the only column, or the one called `text` or `sentence`.
        data_dir: The data folder; `SENTEMB_DATA` by default.
        label: Column of numbers to add as `label` (float64).
        limit: Number of rows to use; all by default.

    Raises:
        InputError: The source, a column or a row is missing or broken, or a text is empty; with the line.

    Example:
        >>> dataset = load_columns("pairs.jsonl", ["question", "answer"])
        >>> dataset.column_names
        ['question', 'answer']
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit of {limit} rows leaves nothing to train on", "choose 1 or more")
    refuse_bare_string(columns)
    if columns is not None and (not columns or len(set(columns)) != len(columns)):
        message = f"the text columns are {', '.join(columns) or '(none)'}"
        raise InputError(message, "name each column once, in order")
    names = tuple(columns) if columns else None
    if names is None and kind_of(source) == "entry":
        names = get(str(source)).text_columns
    # The label first: if pairs are expected for its sake alone, the error should name it.
    wanted = [label, *names] if names and label else names
    rows = read_rows(source, columns=wanted, data_dir=data_dir, check_rows=limit is None)
    first, name = next(rows, None), without_secrets(str(source))
    if first is None:
        raise InputError(f"{name} does not contain rows")
    if names is None:
        present = [name for name in first.values if name != label]
        names = tuple(present if len(present) == 1 else [one for one in _USUAL if one in present])[:1]
    if not names:
        hint = "name the text columns with --columns in the order of their roles: anchor, positive, negatives"
        raise InputError(f"{name} has the columns {', '.join(present)}", hint)
    if label and LABEL in names:
        message = f"{name}: {LABEL!r} is used as a text column and as the label"
        raise InputError(message, "rename the text column")
    return _to_dataset(_batches(islice(chain([first], rows), limit), names, label))


def _batches(rows: Iterator[Row], names: Sequence[str], label: str | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while block := list(islice(rows, 8192)):
        columns = {name: pa.array([row.filled(name) for row in block], pa.string()) for name in names}
        if label:
            columns[LABEL] = pa.array([row.number(label) for row in block], pa.float64())
        yield pa.record_batch(columns)


def _to_dataset(batches: Iterator[pa.RecordBatch]) -> Dataset:
    import pyarrow as pa
    from datasets import Dataset
    from datasets.table import InMemoryTable

    from sentemb.data.stored_texts import write_temporary

    held: list[pa.RecordBatch] = []
    size, content = 0, hashlib.sha256()
    for batch in batches:
        held.append(batch)
        content.update(batch.serialize())
        size += batch.nbytes
        if size > _MEMORY:
            return Dataset.from_file(write_temporary(chain(held, batches)))
    # By itself, Dataset would compute its fingerprint by pickling the whole table in memory.
    return Dataset(InMemoryTable(pa.Table.from_batches(held)), fingerprint=content.hexdigest()[:16])


def check_output(
    path: Path, inputs: Iterable[str | None], *, overwrite: bool, cache: Path | None = None
) -> None:
    """Raise InputError for an unknown format, or if a file would be replaced: before hours of work."""
    if path.suffix not in _FORMATS:
        message = f"cannot write {path}: the extension is not a known format"
        raise InputError(message, f"use one of {', '.join(_FORMATS)}")
    refuse_unusable_output(path, inputs, cache=cache)
    refuse_existing(path, overwrite=overwrite)


def write_table(
    path: Path, columns: Mapping[str, Sequence[Any]], manifest: Mapping[str, Any] | None = None
) -> None:
    """Write a table, which the readers read back, and, if given, a manifest that says how it was made."""
    rows = zip(*columns.values(), strict=True)
    with new_file(path) as file:
        if path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
        elif path.suffix == ".csv":
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
            writer.writerows(chain([tuple(columns)], rows))
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
