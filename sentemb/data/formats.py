"""The file formats of texts, one generator each: plain lines, CSV, TSV, JSON lines and Parquet.

Every generator yields `(where, values)`: the line or row number, from 1, and a mapping of column to value.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from sentemb.data.lines import is_packed, open_bytes, read_blocks, read_lines
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Row = tuple[int, dict[str, Any]]
TEXT_COLUMN = "text"
"""Name of the one column of a plain text file."""
_PARQUET_BATCH = 1024
# The csv module refuses fields of more than 131,072 characters unless told otherwise.
_LARGEST_FIELD = 2**31 - 1


def read_rows(path: Path, *, columns: Sequence[str] | None = None, encoding: str = "utf-8") -> Iterator[Row]:
    """Read one file, in the format that its name says.

    Args:
        path: A `.txt`, `.csv`, `.tsv`, `.jsonl` or `.parquet` file, or one of these with `.gz` or `.xz`.
        columns: The columns to keep, in this order; all by default.
        encoding: Text encoding; Parquet has its own.

    Yields:
        Line (or row) number and values.

    Raises:
        InputError: The format is unknown, a column is missing, or the content is broken; with the line.
    """
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
    """The format's suffix, without the compression's.

    Args:
        path: The file.

    Returns:
        A suffix such as `.jsonl`, in lower case; empty where the name has none.
    """
    inner = path.with_suffix("") if is_packed(path) else path
    return inner.suffix.lower()


def refuse_bare_string(columns: Sequence[str] | None) -> None:
    """Refuse `columns="text"`, which Python would take for four columns of one letter each.

    Args:
        columns: The columns asked for.

    Raises:
        InputError: They are a single string.
    """
    if isinstance(columns, str):
        raise InputError(f"columns is the string {columns!r}", f"write [{columns!r}]")


def require_columns(columns: Sequence[str] | None, present: Sequence[str], where: str) -> None:
    """Check that a table has the columns asked for.

    Args:
        columns: The columns asked for, or None for whatever there is.
        present: The columns of the table.
        where: What errors call the table.

    Raises:
        InputError: A column is missing; names the closest one and all that are there.
    """
    for column in columns or ():
        if column not in present:
            close = difflib.get_close_matches(column, present, n=1)
            there = ", ".join(present) if present else "none"
            raise InputError(
                f"{where} has no column {column!r}; its columns are {there}",
                f"did you mean {close[0]!r}?" if close else "name one of these",
            )


def _text(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    require_columns(columns, [TEXT_COLUMN], str(path))
    blank = 0
    for number, line in read_lines(path, encoding=encoding):
        if line.strip():
            yield number, {TEXT_COLUMN: line}
        else:
            blank += 1
    _report_blank(path, blank)


def _csv(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    csv.field_size_limit(_LARGEST_FIELD)
    # The parser wants line ends, since a quoted field may hold some.
    lines = (line + "\n" for _, line in read_lines(path, encoding=encoding))
    parser = csv.reader(lines, strict=True)

    def cells() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for row in parser:
                yield start, row
                start = parser.line_num + 1
        except csv.Error as error:
            # csv's own words for a bare carriage return speak of how Python should open the file.
            reason = "a carriage return outside quotes" if "new-line" in str(error) else str(error)
            raise InputError(f"{path}, line {start}: {reason}", "quote fields as RFC 4180 says") from None

    return _table(path, cells(), columns)


def _tsv(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    # Tab-separated values know no quoting: quotation marks are text, as in STS-B and GLUE.
    cells = (
        (number, line.split("\t") if line else []) for number, line in read_lines(path, encoding=encoding)
    )
    return _table(path, cells, columns)


def _table(
    path: Path, cells: Iterator[tuple[int, list[str]]], columns: Sequence[str] | None
) -> Iterator[Row]:
    header: list[str] | None = None
    chosen: list[tuple[str, int]] = []
    blank = 0
    for number, row in cells:
        if header is None:
            header = row
            chosen = _choose(path, header, columns)
        elif not row:
            blank += 1
        elif len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: {len(row)} fields where the header has {len(header)}",
                "mend the line, or quote the separators in its texts",
            )
        else:
            yield number, {name: row[index] for name, index in chosen}
    _report_blank(path, blank)


def _choose(path: Path, header: list[str], columns: Sequence[str] | None) -> list[tuple[str, int]]:
    _refuse_repeated(path, header)
    if len(header) == 1 and header[0] not in (columns or header) and (found := set(";|\t") & set(header[0])):
        raise InputError(f"{path}, line 1: its fields seem to be separated by {min(found)!r}", "use commas")
    require_columns(columns, header, str(path))
    return [(name, header.index(name)) for name in (columns or header)]


def _refuse_repeated(path: Path, header: Sequence[str]) -> None:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise InputError(f"{path}: its header names column {min(repeated)!r} more than once")


def _jsonl(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    blank = 0
    for number, line in read_lines(path, encoding=encoding):
        if not line.strip():
            blank += 1
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}: no JSON ({error.msg} at column {error.colno})") from None
        except ValueError as error:  # a number of more than 4,300 digits
            raise InputError(f"{where}: {error}") from None
        except RecursionError:
            raise InputError(f"{where}: JSON nested too deeply") from None
        if not isinstance(values, dict):
            raise InputError(f"{where}: a JSON {_json_type(values)} where an object is wanted")
        if r"\ud" in line.lower():
            _require_whole_characters(values, where)
        require_columns(columns, list(values), where)
        yield number, ({name: values[name] for name in columns} if columns else values)
    _report_blank(path, blank)


def _require_whole_characters(values: Mapping[str, Any], where: str) -> None:
    """JSON can escape one half of a surrogate pair, a string that no tokenizer and no file can take."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: an escaped half of a surrogate pair, which is no character") from None


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def _parquet(path: Path, encoding: str, columns: Sequence[str] | None) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"reading {path} needs pyarrow", "pip install 'sentemb[index]'") from None
    with _seekable(path) as content:
        try:
            file = pq.ParquetFile(content)
            _refuse_repeated(path, file.schema_arrow.names)
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


def _report_blank(path: Path, count: int) -> None:
    if count:
        logger.warning("%s: passed over %d blank line%s", path, count, "" if count == 1 else "s")


Reader = Callable[[Path, str, Sequence[str] | None], Iterator[Row]]
READERS: Mapping[str, Reader] = {
    ".txt": _text,
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
