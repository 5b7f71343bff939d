"""Users' files of texts, row by row: lines, CSV, TSV, JSON lines, Parquet and pages, each also packed."""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

from sentemb._uris import local_path
from sentemb.data.catalogue import is_entry
from sentemb.data.lines import is_packed, open_bytes, read_blocks, read_lines
from sentemb.data.pages import parse_page
from sentemb.data.remote import Source
from sentemb.data.tables import (
    Numbered,
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
# The square of a larger number may be infinite.
_LARGEST = 1e100
_SPLIT_WORDS = {"train": "train", "test": "test"} | dict.fromkeys(
    ("dev", "valid", "validation", "val"), "dev"
)


class Row(NamedTuple):
    """One row of a source.

    Attributes:
        location: Where it stands, such as `corpus/a.jsonl:17` (lines and rows count from 1).
        values: Its columns in the order asked for.

    Example:
        >>> next(read_rows("sentences.txt")).values
        {'text': 'My brother keeps his spare change in an old jam jar.'}
    """

    location: str
    values: dict[str, Any]

    def text(self, column: str) -> str:
        """The text in a column, which may be empty; `InputError` where it is absent or no string."""
        value = self._value(column)
        if not isinstance(value, str):
            raise self._wrong(column, value, "text")
        return value

    def filled(self, column: str) -> str:
        """The text in a column, which must not be blank."""
        text = self.text(column)
        if not text.strip():
            raise InputError(
                f"{self.location}: column {column!r} is empty", "remove the row, or fill in the text"
            )
        return text

    def number(self, column: str) -> float:
        """The number in a column, also where a text format spells it; at most 1e100."""
        value = self._value(column)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not abs(number) <= _LARGEST:  # nor is NaN
            comma = isinstance(value, str) and re.fullmatch(r"-?\d+,\d+", value.strip())
            raise self._wrong(column, value, "number", "write decimals with a point" if comma else None)
        return number

    def _value(self, column: str) -> Any:
        # Rows of JSON lines, and the files of a folder, may differ in their columns.
        require_columns([column], list(self.values), self.location)
        return self.values[column]

    def _wrong(self, column: str, value: Any, wanted: str, hint: str | None = None) -> InputError:
        shown = "nothing" if value is None else repr(value)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        return InputError(
            f"{self.location}: expected a {wanted} in column {column!r}, but found {shown}", hint
        )


def read_file(
    path: Source, *, columns: Sequence[str] | None = None, encoding: str = "utf-8"
) -> Iterator[Row]:
    """Read one file, in the format that its name says."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    reader = FORMATS.get(format_of(path))
    if reader is None:
        raise InputError(
            f"the extension of {path} is not a known format",
            f"rename it to one of {', '.join(FORMATS)} (also .gz, .xz)",
        )
    number = 0
    for number, values in reader(path, encoding, columns):
        yield Row(f"{path}:{number}", values)
    if not number:
        raise InputError(f"{path} is empty")


def format_of(path: Source) -> str:
    """The format's suffix, without the compression's."""
    name = PurePosixPath(path.name)
    return (name.with_suffix("") if is_packed(path) else name).suffix.lower()


def names_a_file(source: str | os.PathLike[str]) -> bool:
    """Tell whether an option's value is a file, not a data set: one that is called like one, or exists."""
    path = local_path(source)
    return format_of(path) in FORMATS or (path.is_file() and not is_entry(str(source)))


def name_and_split(path: Source, *, name: str | None = None, split: str | None = None) -> tuple[str, str]:
    """What results call a user's file: its name without suffixes, and the split that its name mentions."""
    stem = path.name.split(".")[0]
    words = re.split(r"[^a-z]+", stem.lower())
    mentioned = (_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS)
    return name or stem, split or next(mentioned, "all")


def usual_columns(path: Source, options: Sequence[tuple[str, ...]], *, encoding: str = "utf-8") -> list[str]:
    """Find columns by their usual names, in any letter case: the first of the options that the file has."""
    names = list(next(read_file(path, encoding=encoding)).values)
    present = {name.lower(): name for name in names}
    for option in options:
        if present.keys() >= {*option}:
            return [present[name] for name in option]
    absent = next(name for name in options[0] if name not in present)
    listed = ", ".join(name if len(name) <= 40 else f"{name[:37]}..." for name in names)
    raise InputError(
        f"{path} does not have a column {absent!r}; its columns are {listed}",
        f"rename {'it' if len(options[0]) == 1 else 'them'} to {' and '.join(options[0])}",
    )


def refuse_bare_string(columns: Sequence[str] | None) -> None:
    """Refuse `columns="text"`, which Python would take for four columns of one letter each."""
    if isinstance(columns, str):
        raise InputError(f"columns must be a list, not the string {columns!r}", f"write [{columns!r}]")


def _text(path: Source, encoding: str, columns: Sequence[str] | None) -> Iterator[Numbered]:
    require_columns(columns, [TEXT_COLUMN], str(path))
    blank = 0
    for number, line in read_lines(path, encoding=encoding):
        if line.strip():
            yield number, {TEXT_COLUMN: line}
        else:
            blank += 1
    report_blank(str(path), blank)


def _page(path: Source, encoding: str, columns: Sequence[str] | None) -> Iterator[Numbered]:
    for number, values in parse_page(read_lines(path, encoding=encoding)):
        require_columns(columns, list(values), str(path))
        yield number, ({name: values[name] for name in columns} if columns else values)


def _of_lines(parse: Callable[..., Iterator[Numbered]]) -> Reader:
    def read(path: Source, encoding: str, columns: Sequence[str] | None) -> Iterator[Numbered]:
        return parse(str(path), read_lines(path, encoding=encoding), columns)

    return read


def _parquet(path: Source, encoding: str, columns: Sequence[str] | None) -> Iterator[Numbered]:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
def _seekable(path: Source) -> Iterator[IO[bytes]]:
    """Open a file so that it can be read from its end, as Parquet must: a packed one is unpacked on disk."""
    with open_bytes(path) as file:
        if not is_packed(path):
            yield file
            return
        with tempfile.TemporaryFile() as unpacked:
            unpacked.writelines(read_blocks(file, str(path)))
            unpacked.seek(0)
            yield unpacked


PAGES = (".md", ".rst")
"""Formats of files that are one document each."""
Reader = Callable[[Source, str, Sequence[str] | None], Iterator[Numbered]]
FORMATS: Mapping[str, Reader] = {
    ".txt": _text,
    ".csv": _of_lines(parse_csv),
    ".tsv": _of_lines(parse_tsv),
    ".jsonl": _of_lines(parse_jsonl),
    ".parquet": _parquet,
    **dict.fromkeys(PAGES, _page),
}
