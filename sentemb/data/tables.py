"""Rows of delimited tables and of JSON lines, parsed from numbered lines; the usual columns of documents."""

from __future__ import annotations

import contextlib
import csv
import difflib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Numbered = tuple[int, dict[str, Any]]
"""The line or row number, from 1, and a row's values by column."""
Lines = Iterable[tuple[int, str]]
# The csv module refuses fields of more than 131,072 characters by default.
_LARGEST_FIELD = 2**31 - 1
NO_COLUMN = "none"
ID_COLUMNS = ("_id", "id", "doc_id", "docid", "docno", "document_id")
"""Usual names of the column of ids, in the order in which they are tried, in any letter case."""
IDS_HINT = (
    "use unique ids, name another column with --id-column, or number the documents with --id-column none"
)
_TITLE = "title"
_LONGEST_NAME = 4, 40  # words and characters of a column's name


def require_columns(columns: Sequence[str] | None, present: Sequence[str], where: str) -> None:
    """Raise InputError if a table does not have one of the requested columns."""
    for column in columns or ():
        if column not in present:
            close = difflib.get_close_matches(column, present, n=1)
            raise InputError(
                f"{where} does not have a column {column!r}; its columns are {', '.join(present) or 'none'}",
                f"did you mean {close[0]!r}?" if close else "name one of them",
            )


def text_column_of(values: Mapping[str, Any], where: str) -> str:
    """Return the column of a row that holds its text if `--text-column` does not name one."""
    if len(values) == 1:
        (only,) = values
        if reads_like_text(only):  # the first text of a table without a header
            raise InputError(
                f"{where}: the name of the only column, {only[: _LONGEST_NAME[1]]!r}, looks like a text",
                "name the column with --text-column, or add a header to the table",
            )
        return only
    named = [name for name in ("text", "sentence") if name in values]
    if len(named) == 1:
        return named[0]
    raise InputError(
        f"{where}: the text could be in any of the columns {', '.join(values)}",
        "name it with --text-column",
    )


def title_column_of(values: Mapping[str, Any], named: str | None, *, text: str) -> str | None:
    """Return the column of a row's title; `--title-column` names it, or `none` to have no title."""
    if named == NO_COLUMN:
        return None
    return named or (_TITLE if text != _TITLE and values.get(_TITLE) is not None else None)


def id_column_of(values: Mapping[str, Any], named: str | None) -> str | None:
    """Return the column of a row's id; `--id-column` names it, or `none` to number the rows."""
    if named is not None:
        return None if named == NO_COLUMN else named
    present = {name.lower(): name for name in reversed([*values])}
    return next((present[name] for name in ID_COLUMNS if name in present), None)


def titled(title: str, text: str) -> str:
    """Join title and text with a space, as BEIR does."""
    return f"{title} {text}".strip()


def reads_like_text(column: str) -> bool:
    """Tell whether the name of a column is too long for a name, as if a table had no header."""
    words, characters = _LONGEST_NAME
    return len(column.split()) > words or len(column) > characters


def parse_csv(
    where: str,
    lines: Lines,
    columns: Sequence[str] | None = None,
    *,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
) -> Iterator[Numbered]:
    """Yield rows that are quoted as in RFC 4180; by default the header line determines the separator."""
    csv.field_size_limit(_LARGEST_FIELD)
    lines = iter(lines)
    start = list(islice(lines, 1))
    delimiter = delimiter or _separator(start[0][1] if start else "")
    # The parser needs line ends, since a quoted field may contain some.
    parser = csv.reader((f"{line}\n" for _, line in chain(start, lines)), strict=True, delimiter=delimiter)

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


def _separator(header: str) -> str:
    """Return what separates the most fields of a header line: a comma, or what spreadsheets use instead."""

    def fields(candidate: str) -> int:
        with contextlib.suppress(csv.Error, StopIteration):
            return len(next(csv.reader([header], delimiter=candidate)))
        return 0

    return max(",;\t|", key=fields)


def parse_tsv(
    where: str,
    lines: Lines,
    columns: Sequence[str] | None = None,
    *,
    header: Sequence[str] | None = None,
    optional: int = 0,
) -> Iterator[Numbered]:
    """Yield tab-separated rows without quoting: quotation marks are text, as in STS-B and GLUE.

    A row has all columns of the header, or all but the `optional` last ones.
    """

    def cells() -> Iterator[tuple[int, list[str]]]:
        for number, line in lines:
            if number == 1 and header is None and "\t" not in line and line not in (columns or ()):
                for found in sorted({*",;|"} & {*line})[:1]:
                    raise InputError(
                        f"{where}, line 1: expected tabs between the fields, but found {found!r}",
                        "name the file .csv, or use tabs",
                    )
            yield number, line.split("\t") if line else []

    return _table(where, cells(), columns, header, optional)


def _table(
    where: str,
    cells: Iterator[tuple[int, list[str]]],
    columns: Sequence[str] | None,
    header: Sequence[str] | None,
    optional: int = 0,
) -> Iterator[Numbered]:
    header = header or next(cells, (0, None))[1]
    if header is None:
        return
    check_header(where, header, columns)
    chosen = [(name, header.index(name)) for name in (columns or header)]
    blank = 0
    for number, row in cells:
        if not row:
            blank += 1
        elif len(row) not in (len(header), len(header) - optional):
            raise InputError(
                f"{where}, line {number}: {len(row)} fields, but the header has {len(header)}",
                "correct the line, or quote the separators in its texts",
            )
        else:
            yield number, {name: row[index] for name, index in chosen}
    warn_blank(where, blank)


def check_header(where: str, header: Sequence[str], columns: Sequence[str] | None) -> None:
    """Raise InputError if a header repeats a name, or does not have a requested column."""
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise InputError(f"{where}: the header contains the column {min(repeated)!r} more than once")
    require_columns(columns, header, where)


def parse_jsonl(name: str, lines: Lines, columns: Sequence[str] | None = None) -> Iterator[Numbered]:
    """Yield the objects of JSON lines."""
    blank = 0
    for number, line in lines:
        if not line.strip():
            blank += 1
            continue
        where = f"{name}, line {number}"
        values = parse_json(line, where)
        if not isinstance(values, dict):
            raise InputError(f"{where}: expected a JSON object, but found a {_json_type(values)}")
        if r"\ud" in line.lower():
            _check_surrogates(values, where)
        require_columns(columns, list(values), where)
        yield number, ({name: values[name] for name in columns} if columns else values)
    warn_blank(name, blank)


def parse_json(text: str, where: str) -> Any:
    """Parse JSON, or raise InputError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise InputError(f"{where}: not valid JSON ({error.msg} at {place} {error.colno})") from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise InputError(f"{where}: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply") from None


def _check_surrogates(values: Mapping[str, Any], where: str) -> None:
    """Refuse half a surrogate pair, which JSON can escape and neither tokenizers nor files can hold."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: the text contains an unpaired surrogate, which is not a valid character"
        ) from None


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def warn_blank(where: str, count: int) -> None:
    """Log how many blank lines were skipped."""
    if count:
        logger.warning("%s: skipped %d blank line%s", where, count, "" if count == 1 else "s")
