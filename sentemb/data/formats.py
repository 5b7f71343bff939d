"""The file formats of texts, one generator each: plain lines, CSV, TSV, JSON lines and Parquet.

Every generator yields `(where, values)`: the line or row number, from 1, and a mapping of column to value.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from sentemb.data.lines import is_packed, open_bytes, read_blocks, read_lines
from sentemb.data.tables import (
    Row,
    parse_csv,
    parse_jsonl,
    parse_tsv,
    refuse_repeated,
    report_blank,
    require_columns,
)
from sentemb.errors import InputError

TEXT_COLUMN = "text"
"""Name of the one column of a plain text file."""
_PARQUET_BATCH = 1024


def read_rows(path: Path, *, columns: Sequence[str] | None = None, encoding: str = "utf-8") -> Iterator[Row]:
    """Read one file, in the format that its name says."""
    reader = READERS.get(format_of(path))
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if reader is None:
        raise InputError(f"cannot tell the format of {path}", f"name it {', '.join(READERS)} (.gz, .xz)")
    found = False
    for row in reader(path, encoding, columns):
        found = True
        yield row
    if not found:
        raise InputError(f"{path} is empty: it holds no text")


def format_of(path: Path) -> str:
    """The format's suffix, without the compression's."""
    inner = path.with_suffix("") if is_packed(path) else path
    return inner.suffix.lower()


def refuse_bare_string(columns: Sequence[str] | None) -> None:
    """Refuse `columns="text"`, which Python would take for four columns of one letter each."""
    if isinstance(columns, str):
        raise InputError(f"columns is the string {columns!r}", f"write [{columns!r}]")


def _text(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    require_columns(columns, [TEXT_COLUMN], str(path))
    blank = 0
    for number, line in read_lines(path, encoding=encoding):
        if line.strip():
            yield number, {TEXT_COLUMN: line}
        else:
            blank += 1
    report_blank(str(path), blank)


def _csv(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    return parse_csv(str(path), read_lines(path, encoding=encoding), columns)


def _tsv(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    return parse_tsv(str(path), read_lines(path, encoding=encoding), columns)


def _jsonl(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    return parse_jsonl(str(path), read_lines(path, encoding=encoding), columns)


def _parquet(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"reading {path} needs pyarrow", "pip install 'sentemb[index]'") from None
    with _seekable(path) as content:
        try:
            file = pq.ParquetFile(content)
            refuse_repeated(str(path), file.schema_arrow.names)
            require_columns(columns, file.schema_arrow.names, str(path))
            number = 0
            for batch in file.iter_batches(_PARQUET_BATCH, columns=list(columns) if columns else None):
                for values in batch.to_pylist():
                    number += 1
                    yield number, ({name: values[name] for name in columns} if columns else values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} cannot be read as Parquet: {reason}") from None


@contextlib.contextmanager
def _seekable(path: Path) -> Iterator[IO[bytes]]:
    """Open a file so that it can be read from its end, as Parquet must: a packed one is unpacked on disk."""
    with open_bytes(path) as file:
        if not is_packed(path):
            yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            unpacked.writelines(read_blocks(file, str(path)))
            unpacked.seek(0)
            yield unpacked


Reader = Callable[[Path, str, Sequence[str] | None], Iterator[Row]]
READERS: Mapping[str, Reader] = {
    ".txt": _text,
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
