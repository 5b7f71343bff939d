"""Columns of text for training, as an Arrow-backed `datasets.Dataset`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.files import Row, refuse_bare_string
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

LABEL = "label"
"""Name of the label column, which sentence-transformers' collator looks for."""
_BATCH = 8192
_MEMORY = 256 << 20
_SINGLE_COLUMNS = ("text", "sentence")


def load_columns(
    source: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    label: str | None = None,
    limit: int | None = None,
) -> Dataset:
    """Load text columns for training; their order determines their roles, not their names.

    Up to 256 MiB of rows stay in memory; more go to a file that is mapped into memory and removed when the
    process ends (a killed one leaves `sentemb-*` in the temporary folder). Nothing is cached between runs.

    Args:
        source: What `read_rows` takes: a file, a folder, a URI, a hub id, or a data set of the catalogue.
        columns: The text columns in the order of their roles: anchor, positive, hard negatives. By default
            those of the catalogue's entry, the only column, or the one called `text` or `sentence`.
        data_dir: The data folder; `SENTEMB_DATA` by default.
        label: Column of numbers to add as `label`.
        limit: Number of rows to use; all by default.

    Returns:
        A data set with the text columns in the given order and, if requested, `label` (float64).

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
        raise InputError(
            f"the text columns are {', '.join(columns) or '(none)'}", "name each column once, in order"
        )
    names = tuple(columns) if columns else None
    if names is None and kind_of(source) == "entry":
        names = get(str(source)).text_columns
    # The label first: if pairs are expected for its sake alone, the error should name it.
    wanted = [label, *names] if names and label else names
    rows = read_rows(source, columns=wanted, data_dir=data_dir, check_rows=limit is None)
    first, name = next(rows, None), without_secrets(str(source))
    if first is None:
        raise InputError(f"{name} does not contain rows")
    names = names or _default_columns(first, name, label)
    if label and LABEL in names:
        raise InputError(
            f"{name}: {LABEL!r} is used as a text column and as the label", "rename the text column"
        )
    return _to_dataset(_batches(islice(chain([first], rows), limit), names, label))


def _default_columns(first: Row, source: str, label: str | None) -> tuple[str, ...]:
    present = [name for name in first.values if name != label]
    if len(present) == 1:
        return tuple(present)
    for name in _SINGLE_COLUMNS:
        if name in present:
            return (name,)
    raise InputError(
        f"{source} has the columns {', '.join(present)}",
        "name the text columns with --columns in the order of their roles: anchor, positive, hard negatives",
    )


def _batches(rows: Iterator[Row], names: Sequence[str], label: str | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in names] + [(LABEL, pa.float64())] * bool(label))
    while block := list(islice(rows, _BATCH)):
        cells: list[list[Any]] = [[row.filled(name) for row in block] for name in names]
        if label:
            cells.append([row.number(label) for row in block])
        arrays = [pa.array(values, field.type) for values, field in zip(cells, schema, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _to_dataset(batches: Iterator[pa.RecordBatch]) -> Dataset:
    import pyarrow as pa
    from datasets import Dataset
    from datasets.table import InMemoryTable

    held: list[pa.RecordBatch] = []
    size, content = 0, hashlib.sha256()
    for batch in batches:
        held.append(batch)
        content.update(batch.serialize())
        size += batch.nbytes
        if size > _MEMORY:
            return _to_mapped_dataset(chain(held, batches), batch.schema)
    # By itself, Dataset would compute its fingerprint by pickling the whole table in memory.
    return Dataset(InMemoryTable(pa.Table.from_batches(held)), fingerprint=content.hexdigest()[:16])


def _to_mapped_dataset(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Dataset:
    import pyarrow as pa
    from datasets import Dataset

    descriptor, name = tempfile.mkstemp(suffix=".arrow", dir=_spill_folder().name)
    with os.fdopen(descriptor, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return Dataset.from_file(name)


@cache
def _spill_folder() -> tempfile.TemporaryDirectory[str]:
    """Return one folder per process, removed when it ends, since data sets keep their files mapped."""
    return tempfile.TemporaryDirectory(prefix="sentemb-")
