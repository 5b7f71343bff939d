"""Users' files of texts, row by row: lines, CSV, TSV, JSON lines, Parquet and pages, each also compressed."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from sentemb._uris import local_path
from sentemb.data.catalogue import is_entry
from sentemb.data.lines import PACKED, format_of, is_packed, open_bytes, read_lines
from sentemb.data.remote import RemotePath, Source
from sentemb.data.tables import (
    Numbered,
    check_header,
    parse_csv,
    parse_jsonl,
    parse_tsv,
    require_columns,
    warn_blank,
)
from sentemb.errors import InputError

TEXT_COLUMN = "text"
"""Name of the one column of a plain text file."""
_PARQUET_BATCH = 1024
# The square of a larger number may be infinite.
_LARGEST = 1e100
_SPLIT_WORDS = {"train": "train", "test": "test"} | dict.fromkeys(
    ("dev", "valid", "validation", "val"), "dev"
)
_RULE = re.compile(r"([=\-~^*#\"'+:.])\1{2,}\s*")
_HASHES = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")


class Row(NamedTuple):
    """One row of a source.

    Attributes:
        location: Where it is, such as `corpus/a.jsonl:17` (lines and rows count from 1).
        values: Its columns in the requested order.

    Example:
        >>> next(read_rows("sentences.txt")).values
        {'text': 'My brother keeps his spare change in an old jam jar.'}
    """

    location: str
    values: dict[str, Any]

    def text(self, column: str) -> str:
        """Return the text in a column, which may be empty but must be a string."""
        value = self._value(column)
        if not isinstance(value, str):
            raise self._unexpected(column, value, "text")
        return value

    def filled(self, column: str) -> str:
        """Return the text in a column, which must not be blank."""
        text = self.text(column)
        if not text.strip():
            raise InputError(
                f"{self.location}: column {column!r} is empty", "remove the row, or fill in the text"
            )
        return text

    def number(self, column: str) -> float:
        """Return the number in a column, parsed if it is text; at most 1e100."""
        value = self._value(column)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not abs(number) <= _LARGEST:  # nor is NaN
            comma = isinstance(value, str) and re.fullmatch(r"-?\d+,\d+", value.strip())
            raise self._unexpected(column, value, "number", "write decimals with a point" if comma else None)
        return number

    def _value(self, column: str) -> Any:
        # Rows of JSON lines, and the files of a folder, may differ in their columns.
        require_columns([column], list(self.values), self.location)
        return self.values[column]

    def _unexpected(self, column: str, value: Any, expected: str, hint: str | None = None) -> InputError:
        shown = _shorten("nothing" if value is None else repr(value))
        return InputError(
            f"{self.location}: expected a {expected} in column {column!r}, but found {shown}", hint
        )


def read_file(
    path: Source, *, columns: Sequence[str] | None = None, encoding: str = "utf-8"
) -> Iterator[Row]:
    """Yield the rows of one file, in the format that its extension says."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    suffix = format_of(path)
    if suffix not in FORMATS:
        raise InputError(
            f"the extension of {path} is not a known format",
            f"rename it to one of {', '.join(FORMATS)} (also {', '.join(PACKED)})",
        )
    number = 0
    if suffix == ".parquet":
        rows = _parse_parquet(path, columns)
    else:
        rows = FORMATS[suffix](str(path), read_lines(path, encoding=encoding), columns)
    for number, values in rows:
        yield Row(f"{path}:{number}", values)
    if not number:
        raise InputError(f"{path} is empty")


def names_a_file(source: str | os.PathLike[str]) -> bool:
    """Tell whether an option's value is a file, not a data set: it has a known extension, or exists."""
    path = local_path(source)
    return format_of(path) in FORMATS or (path.is_file() and not is_entry(str(source)))


def name_and_split(path: Source, *, name: str | None = None, split: str | None = None) -> tuple[str, str]:
    """Return what results call a file: its name without extensions, and the split that its name mentions."""
    stem = path.name.split(".")[0]
    words = re.split(r"[^a-z]+", stem.lower())
    mentioned = (_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS)
    return name or stem, split or next(mentioned, "all")


def usual_columns(path: Source, options: Sequence[tuple[str, ...]]) -> list[str]:
    """Find columns by their usual names, in any letter case: the first of the options that the file has."""
    names = list(next(read_file(path)).values)
    present = {name.lower(): name for name in names}
    for option in options:
        if present.keys() >= {*option}:
            return [present[name] for name in option]
    absent = next(name for name in options[0] if name not in present)
    raise InputError(
        f"{path} does not have a column {absent!r}; its columns are {list_columns(names)}",
        f"rename {'it' if len(options[0]) == 1 else 'them'} to {' and '.join(options[0])}",
    )


def list_columns(names: Iterable[str]) -> str:
    """List the names of columns for a message; long ones may be the first row of a table without a header."""
    return ", ".join(map(_shorten, names))


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def refuse_bare_string(columns: Sequence[str] | None) -> None:
    """Raise InputError for `columns="text"`, which Python would take for four columns of one letter each."""
    if isinstance(columns, str):
        raise InputError(f"columns must be a list, not the string {columns!r}", f"write [{columns!r}]")


def _parse_text(
    name: str, lines: Iterable[tuple[int, str]], columns: Sequence[str] | None
) -> Iterator[Numbered]:
    require_columns(columns, [TEXT_COLUMN], name)
    blank = 0
    for number, line in lines:
        if line.strip():
            yield number, {TEXT_COLUMN: line}
        else:
            blank += 1
    warn_blank(name, blank)


def _parse_page(
    name: str, lines: Iterable[tuple[int, str]], columns: Sequence[str] | None
) -> Iterator[Numbered]:
    """Yield a page of Markdown or reStructuredText as one row, whose title is its first heading or empty."""
    held = [line for _, line in lines]
    first = next((number for number, line in enumerate(held) if line.strip()), None)
    if first is None:
        return
    title, rest = _heading(held, first)
    values = {"title": title, "text": "\n".join(held[rest:]).strip()}
    require_columns(columns, list(values), name)
    yield first + 1, {column: values[column] for column in columns or values}


def _heading(lines: list[str], first: int) -> tuple[str, int]:
    """Return the heading that a page begins with, and where the rest begins."""
    if marked := _HASHES.fullmatch(lines[first]):
        return marked[1], first + 1
    if _RULE.fullmatch(lines[first]):  # reStructuredText also has a rule above a heading
        first += 1
    if first + 1 < len(lines) and lines[first].strip() and _RULE.fullmatch(lines[first + 1]):
        return lines[first].strip(), first + 2
    return "", first


def _parse_parquet(path: Source, columns: Sequence[str] | None) -> Iterator[Numbered]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _open_seekable(path) as content:
        try:
            file = pq.ParquetFile(content)
            check_header(str(path), file.schema_arrow.names, columns)
            number = 0
            for batch in file.iter_batches(_PARQUET_BATCH, columns=list(columns) if columns else None):
                for values in batch.to_pylist():
                    number += 1
                    yield number, ({name: values[name] for name in columns} if columns else values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
            if isinstance(path, RemotePath) and getattr(error, "errno", None):
                raise  # of the network
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} cannot be read as Parquet: {reason}") from None


@contextlib.contextmanager
def _open_seekable(path: Source) -> Iterator[IO[bytes]]:
    """Open a file so that it can be read from its end, as Parquet must be: decompressed to disk if needed."""
    with open_bytes(path) as file:
        if not is_packed(path):
            yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            shutil.copyfileobj(file, unpacked)
            unpacked.seek(0)
            yield unpacked


PAGES = (".md", ".rst")
"""Formats of files that are one document each."""
FORMATS: Mapping[str, Callable[..., Iterator[Numbered]]] = {
    ".txt": _parse_text,
    ".csv": parse_csv,
    ".tsv": parse_tsv,
    ".jsonl": parse_jsonl,
    ".parquet": _parse_parquet,
    **dict.fromkeys(PAGES, _parse_page),
}
"""The parser of each format; that of Parquet takes the file in place of its lines."""
