"""Rows of one file, local or remote: lines, CSV, TSV, JSON lines, Parquet and pages, also compressed.

Only a line feed ends a line. No other module imports fsspec's file systems.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import json
import logging
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal, NamedTuple, cast

from sentemb._uris import is_remote, local_path, without_secrets
from sentemb.data.catalogue import is_entry
from sentemb.errors import InputError
from sentemb.limits import limit, refuse_above

logger = logging.getLogger(__name__)

AnyPath = str | os.PathLike[str]
Numbered = tuple[int, dict[str, Any]]
"""The line or row number, from 1, and a row's values by column."""
Lines = Iterable[tuple[int, str]]
Names = Sequence[str] | None
PACKED = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2", ".zst": "zstd"}
"""fsspec's names of compressions, by extension."""
_BUFFER = 1 << 20
_LARGEST = 1e100  # the square of a larger number may be infinite
_SPLIT_WORDS = {
    "train": "train",
    "test": "test",
    **dict.fromkeys(("dev", "valid", "validation", "val"), "dev"),
}
_RULE = re.compile(r"([=\-~^*#\"'+:.])\1{2,}\s*")
_HASHES = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*")


class _AbsentError(InputError):
    """A remote file does not exist."""


class RemotePath:
    """A file or folder that a URI names. Messages show it without user, password and query."""

    def __init__(self, uri: str, folder: RemotePath | None = None) -> None:
        self._uri, self._is_web = uri, uri.lower().startswith(("http://", "https://"))
        # A name that a folder lists may contain a question mark; a link on a web page has a query behind it.
        self._shown = uri if folder and not self._is_web else without_secrets(uri)
        self._system: Any
        self._path: str
        if folder is not None:
            self._system = folder._system
            self._path = folder._path.rstrip("/") + uri.removeprefix(folder._shown.rstrip("/"))
            return
        from fsspec.core import url_to_fs

        options = {}
        if self._is_web:
            from aiohttp import ClientTimeout

            # aiohttp's own limit, five minutes in total, would end the copy of a large file.
            waits = ClientTimeout(total=None, sock_connect=30, sock_read=120)  # seconds
            client = {"timeout": waits, "trust_env": True, "headers": {"Accept-Encoding": "identity"}}
            options = {"client_kwargs": client, "simple_links": False}
        protocol, _, rest = uri.partition("://")
        with self.explained():
            try:
                self._system, self._path = url_to_fs(f"{protocol.lower()}://{rest}", **options)
            except (ImportError, ValueError) as error:  # fsspec's message names the package
                known = "use s3://, gs://, https:// or file://"
                hint = "install it with pip" if isinstance(error, ImportError) else known
                raise InputError(f"{self} cannot be read: {error}", hint) from None
            self._system.invalidate_cache()  # fsspec keeps listings for the lifetime of the process

    def __str__(self) -> str:
        return self._shown

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._shown.rstrip('/')}/{name}", self)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self._shown).name

    def is_dir(self) -> bool:
        """Tell whether it is a folder; on a web server, a page of links whose address ends in a slash."""
        return self._uri.endswith("/") if self._is_web else self._kind == "directory"

    def is_file(self) -> bool:
        """Tell whether it is a file."""
        return self._kind == "file"

    def exists(self) -> bool:
        """Tell whether it exists."""
        return self._kind != ""

    @cached_property
    def _kind(self) -> str:
        try:
            with self.explained():
                return str(self._system.info(self._path)["type"])
        except _AbsentError:
            return ""

    def files(self) -> list[RemotePath]:
        """Return the files of a folder and its subfolders, sorted by path, without hidden ones."""
        # fsspec's own walk silently skips folders that it may not list.
        found, folders = [], [self._path]
        with self.explained():
            while folders:
                folder = folders.pop()
                for entry in self._system.ls(folder, detail=True):
                    name = entry["name"]
                    if entry["type"] == "directory":
                        folders.append(name)
                    elif name.rstrip("/") != folder.rstrip("/"):  # object stores list a folder itself
                        found.append(PurePosixPath(name.removeprefix(self._path).lstrip("/")))
        return [self / str(path) for path in sorted(found) if not any(part[0] == "." for part in path.parts)]

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open it for reading bytes, which are fetched as they are read."""
        with self.explained():
            file = self._system.open(self._path, mode)
            try:
                is_whole = self._is_web and not ((file.size or 0) > 1 and file._fetch_range(1, 2))
            except ValueError:  # asked for a part, the server answered with all of it
                is_whole = True
            if is_whole:  # such a server may hang up on a slow reader
                file = tempfile.TemporaryFile()  # noqa: SIM115  # the reader closes it
                with self._system.open(self._path, mode, block_size=0) as content:
                    shutil.copyfileobj(content, file, _BUFFER)
                file.seek(0)
        return io.BufferedReader(file, _BUFFER)  # finds the ends of lines faster than fsspec

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of file systems, each of which has its own, into InputError."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            cause: BaseException = error
            while inner := cause.__cause__:  # fsspec turns every failure of a client into a missing file
                if not isinstance(inner, OSError) and not type(inner).__module__.startswith("aiohttp"):
                    break
                cause = inner
            status = getattr(cause, "status", None)
            if isinstance(cause, FileNotFoundError) or status in (404, 410):
                raise _AbsentError(f"no such file: {self}") from None
            if isinstance(cause, PermissionError) or status in (401, 403, 407):
                raise InputError(f"{self}: permission denied", "check your credentials") from None
            reason = str(cause).partition("\n")[0] or type(cause).__name__
            if status:
                reason = f"the server answered with status {status}"
            elif isinstance(cause, OSError) and cause.errno and cause.errno > 0:
                reason = os.strerror(cause.errno)
            message = f"{self} cannot be read: {reason.replace(self._uri, self._shown)}"
            raise InputError(message, "check the address, the network and your credentials") from None


Source = Path | RemotePath
"""A file or folder, local or remote."""


def source_at(name: AnyPath) -> Source:
    """Return the file or folder that a path or URI names; InputError if fsspec does not know the protocol."""
    return RemotePath(os.fspath(name)) if is_remote(name) else local_path(name)


def _packing_of(path: Source) -> str | None:
    return PACKED.get(PurePosixPath(path.name).suffix.lower())


def format_of(path: Source) -> str:
    """Return the extension of a file in lower case, without that of its compression."""
    name = PurePosixPath(path.name)
    return (name.with_suffix("") if _packing_of(path) else name).suffix.lower()


@contextlib.contextmanager
def _open_bytes(path: Source) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompress it, and turn what goes wrong in between into InputError."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise InputError(f"no such file: {path}")
    packing = _packing_of(path)
    explained = path.explained() if isinstance(path, RemotePath) else contextlib.nullcontext()
    with explained, path.open("rb") as raw:
        if packing is None:
            yield raw
            return
        from fsspec.compression import compr

        if packing not in compr:
            raise InputError(f"{path} needs zstandard", "pip install zstandard")
        try:
            with cast(IO[bytes], compr[packing](raw, mode="rb")) as file:
                yield file
        except (InputError, MemoryError):
            raise
        except EOFError:
            message = f"{path} is truncated: its compressed data ends too early"
            raise InputError(message, "copy it again") from None
        except Exception as error:
            if getattr(error, "errno", None):  # of the disk or the network
                raise
            raise InputError(f"{path} is damaged, or not compressed as its extension says: {error}") from None


def read_lines(path: Source, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text file, numbered from 1 as in an editor and in `wc -l`.

    Only `\n` ends a line: `str.splitlines` would also break at NEL (U+0085), form feeds and six other
    characters that occur inside sentences. One `\r` before the `\n` and a byte order mark are removed.
    """
    position = number = 0
    longest = (limit("line") << 20) + 1
    with _open_bytes(path) as file:
        while raw := file.readline(longest):
            number += 1
            where = f"{path}, line {number}"
            if len(raw) == longest:
                refuse_above("line", len(raw) / (1 << 20), where, "split it into several lines")
            problem = ""
            try:
                line = raw.decode(encoding)
                if "\0" in line:
                    problem = f"the file contains a NUL byte, so it is not {encoding} text"
            except UnicodeDecodeError as error:
                problem = f"byte {position + error.start} is not {encoding} (0x{raw[error.start]:02x})"
            if problem:
                raise InputError(f"{where}: {problem}", "convert the file to UTF-8")
            position += len(raw)
            line = line.removeprefix("\ufeff") if number == 1 else line
            yield number, line.removesuffix("\n").removesuffix("\r")
        size = getattr(getattr(file, "raw", None), "size", None)  # that of a remote file when it was opened
        if isinstance(path, RemotePath) and size is not None and file.tell() < size:
            raise InputError(f"{path} ends at byte {file.tell():,} of {size:,}", "run the command again")


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
            raise self._unexpected(column, "text")
        return value

    def filled(self, column: str) -> str:
        """Return the text in a column, which must not be blank."""
        text = self.text(column)
        if not text.strip():
            message = f"{self.location}: column {column!r} is empty"
            raise InputError(message, "remove the row, or fill in the text")
        return text

    def number(self, column: str) -> float:
        """Return the number in a column, parsed if it is text; at most 1e100."""
        value, number = self._value(column), math.nan
        if not isinstance(value, bool):
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                number = float(value)
        if not abs(number) <= _LARGEST:  # nor is NaN
            comma = isinstance(value, str) and re.fullmatch(r"-?\d+,\d+", value.strip())
            raise self._unexpected(column, "number", "write decimals with a point" if comma else None)
        return number

    def _value(self, column: str) -> Any:
        # Rows of JSON lines, and the files of a folder, may differ in their columns.
        require_columns([column], list(self.values), self.location)
        return self.values[column]

    def _unexpected(self, column: str, expected: str, hint: str | None = None) -> InputError:
        value = self.values[column]
        found = _shorten("nothing" if value is None else repr(value))
        message = f"{self.location}: expected a {expected} in column {column!r}, but found {found}"
        return InputError(message, hint)


def read_file(path: Source, *, columns: Names = None) -> Iterator[Row]:
    """Yield the rows of one file, in the format that its extension says."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    suffix, number = format_of(path), 0
    if suffix not in FORMATS:
        known = f"rename it to one of {', '.join(FORMATS)} (also {', '.join(PACKED)})"
        raise InputError(f"the extension of {path} is not a known format", known)
    if suffix == ".parquet":
        rows = _parse_parquet(path, columns)
    else:
        rows = FORMATS[suffix](str(path), read_lines(path), columns)
    for number, values in rows:
        yield Row(f"{path}:{number}", values)
    if not number:
        raise InputError(f"{path} is empty")


def names_a_file(source: AnyPath) -> bool:
    """Tell whether an option's value is a file, not a data set: it has a known extension, or exists."""
    path = local_path(source)
    return format_of(path) in FORMATS or (path.is_file() and not is_entry(str(source)))


def name_and_split(path: Source, *, name: str | None = None, split: str | None = None) -> tuple[str, str]:
    """Return what results call a file: its name without extensions, and the split that its name mentions."""
    stem = path.name.split(".")[0]
    mentioned = [_SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", stem.lower()) if word in _SPLIT_WORDS]
    return name or stem, split or next(iter(mentioned), "all")


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


def refuse_bare_string(columns: Names) -> None:
    """Raise InputError for `columns="text"`, which Python would take for four columns of one letter each."""
    if isinstance(columns, str):
        raise InputError(f"columns must be a list, not the string {columns!r}", f"write [{columns!r}]")


def require_columns(columns: Names, present: Sequence[str], where: str) -> None:
    """Raise InputError if a table does not have one of the requested columns."""
    for column in columns or ():
        if column not in present:
            close = difflib.get_close_matches(column, present, n=1)
            message = (
                f"{where} does not have a column {column!r}; its columns are {', '.join(present) or 'none'}"
            )
            raise InputError(message, f"did you mean {close[0]!r}?" if close else "name one of them")


def _skip_blank(where: str, lines: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the lines, or rows of cells, that are not blank, and log how many are."""
    blank = 0
    for number, line in lines:
        if line.strip() if isinstance(line, str) else line:
            yield number, line
        else:
            blank += 1
    if blank:
        logger.warning("%s: skipped %d blank line%s", where, blank, "" if blank == 1 else "s")


def _parse_text(where: str, lines: Lines, columns: Names) -> Iterator[Numbered]:
    require_columns(columns, ["text"], where)
    return ((number, {"text": line}) for number, line in _skip_blank(where, lines))


def _parse_page(where: str, lines: Lines, columns: Names) -> Iterator[Numbered]:
    """Yield a page of Markdown or reStructuredText as one row, whose title is its first heading or empty."""
    page = [line for _, line in lines]
    first = next((number for number, line in enumerate(page) if line.strip()), None)
    if first is None:
        return
    title, rest = "", first
    # In reStructuredText a heading has a rule below, and may have one above.
    above = first + bool(_RULE.fullmatch(page[first]))
    if marked := _HASHES.fullmatch(page[first]):
        title, rest = marked[1], first + 1
    elif above + 1 < len(page) and page[above].strip() and _RULE.fullmatch(page[above + 1]):
        title, rest = page[above].strip(), above + 2
    values = {"title": title, "text": "\n".join(page[rest:]).strip()}
    require_columns(columns, list(values), where)
    yield first + 1, {column: values[column] for column in columns or values}


def parse_csv(
    where: str, lines: Lines, columns: Names = None, *, header: Names = None, delimiter: str | None = None
) -> Iterator[Numbered]:
    """Yield rows that are quoted as in RFC 4180; by default the header line determines the separator."""
    csv.field_size_limit(2**31 - 1)  # of the fields, 131,072 characters by default
    lines = iter(lines)
    start = list(islice(lines, 1))
    if (
        not delimiter
    ):  # what separates the most fields of the header: a comma, or what spreadsheets use instead
        first = [line.replace("\r", " ") for _, line in start]  # a bare carriage return is the parser's error
        delimiter = max(",;\t|", key=lambda mark: len(next(csv.reader(first, delimiter=mark), ())))
    # The parser needs line ends, since a quoted field may contain some.
    ended = (f"{line}\n" for _, line in chain(start, lines))
    parser = csv.reader(ended, strict=True, delimiter=delimiter)

    def cells() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for row in parser:
                yield start, row
                start = parser.line_num + 1
        except csv.Error as error:
            # For a bare carriage return, csv's own message says how Python should open the file.
            reason = "a carriage return outside quotes" if "new-line" in str(error) else str(error)
            raise InputError(f"{where}, line {start}: {reason}", "quote fields as in RFC 4180") from None

    return _table(where, cells(), columns, header)


def parse_tsv(
    where: str, lines: Lines, columns: Names = None, *, header: Names = None, optional: int = 0
) -> Iterator[Numbered]:
    """Yield tab-separated rows without quoting, which may lack the `optional` last columns."""

    def cells() -> Iterator[tuple[int, list[str]]]:
        for number, line in lines:
            if number == 1 and header is None and "\t" not in line and line not in (columns or ()):
                for found in sorted({*",;|"} & {*line})[:1]:
                    message = f"{where}, line 1: expected tabs between the fields, but found {found!r}"
                    raise InputError(message, "name the file .csv, or use tabs")
            yield number, line.split("\t") if line else []

    return _table(where, cells(), columns, header, optional)


def _check_header(where: str, header: Sequence[str], columns: Names) -> None:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise InputError(f"{where}: the header contains the column {min(repeated)!r} more than once")
    require_columns(columns, header, where)


def _table(
    where: str, cells: Iterator[tuple[int, list[str]]], columns: Names, header: Names, optional: int = 0
) -> Iterator[Numbered]:
    header = header or next(cells, (0, None))[1]
    if header is None:
        return
    _check_header(where, header, columns)
    chosen = [(name, header.index(name)) for name in (columns or header)]
    for number, row in _skip_blank(where, cells):
        if len(row) not in (len(header), len(header) - optional):
            message = f"{where}, line {number}: {len(row)} fields, but the header has {len(header)}"
            raise InputError(message, "correct the line, or quote the separators in its texts")
        yield number, {name: row[index] for name, index in chosen}


def parse_jsonl(where: str, lines: Lines, columns: Names) -> Iterator[Numbered]:
    """Yield the objects of JSON lines."""
    for number, line in _skip_blank(where, lines):
        here = f"{where}, line {number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{here}: not valid JSON ({error.msg} at column {error.colno})") from None
        except ValueError as error:  # a number of more than 4,300 digits
            raise InputError(f"{here}: {error}") from None
        except RecursionError:
            raise InputError(f"{here}: the JSON is nested too deeply") from None
        if not isinstance(values, dict):
            raise InputError(f"{here}: expected a JSON object, but found {_shorten(line.strip())}")
        if r"\ud" in line.lower():
            try:  # JSON can escape half a surrogate pair, which neither tokenizers nor files can hold
                json.dumps(values, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                message = f"{here}: the text contains an unpaired surrogate, which is not a valid character"
                raise InputError(message) from None
        require_columns(columns, list(values), here)
        yield number, ({name: values[name] for name in columns} if columns else values)


def _parse_parquet(path: Source, columns: Names) -> Iterator[Numbered]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.ExitStack() as opened:
        content = opened.enter_context(_open_bytes(path))
        if _packing_of(path):  # Parquet is read from its end
            packed, content = content, opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(packed, content)
            content.seek(0)
        try:
            file = pq.ParquetFile(content)
            _check_header(str(path), file.schema_arrow.names, columns)
            batches = file.iter_batches(1024, columns=list(columns) if columns else None)
            for number, values in enumerate((row for batch in batches for row in batch.to_pylist()), start=1):
                yield number, ({name: values[name] for name in columns} if columns else values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
            if isinstance(path, RemotePath) and getattr(error, "errno", None):
                raise  # of the network
            raise InputError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


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
