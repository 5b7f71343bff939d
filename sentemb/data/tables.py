"""Rows of delimited tables and of JSON lines, parsed from numbered lines wherever these come from."""

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
# The csv module refuses fields of more than 131,072 characters unless told otherwise.
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
    """Check that a table has the columns asked for."""
    for column in columns or ():
        if column not in present:
            close = difflib.get_close_matches(column, present, n=1)
            there = ", ".join(present) if present else "none"
            raise InputError(
                f"{where} does not have a column {column!r}; its columns are {there}",
                f"did you mean {close[0]!r}?" if close else "name one of them",
            )


def text_column_of(values: Mapping[str, Any], where: str) -> str:
    """The column of a row that holds its text where nobody names one; `--text-column` does."""
    if len(values) == 1:
        (only,) = values
        _refuse_text_as_header(only, where)
        return only
    named = [name for name in ("text", "sentence") if name in values]
    if len(named) == 1:
        return named[0]
    raise InputError(
        f"{where}: the text could be in any of the columns {', '.join(values)}",
        "name it with --text-column",
    )


def title_column_of(values: Mapping[str, Any], named: str | None, *, text: str) -> str | None:
    """The column of a row that holds the title of its `text` column; `--title-column` names it, or `none`."""
    if named == NO_COLUMN:
        return None
    return named or (_TITLE if text != _TITLE and values.get(_TITLE) is not None else None)


def id_column_of(values: Mapping[str, Any], named: str | None) -> str | None:
    """The column of a row that holds its id; `--id-column` names it, or `none` where rows are numbered."""
    if named is not None:
        return None if named == NO_COLUMN else named
    present = {name.lower(): name for name in reversed([*values])}
    return next((present[name] for name in ID_COLUMNS if name in present), None)


def titled(title: str, text: str) -> str:
    """Title and text as one, joined by a space as BEIR joins them."""
    return f"{title} {text}".strip()


def _refuse_text_as_header(column: str, where: str) -> None:
    """Refuse a column that is called by what must be a text: the first one, where the header was left out."""
    if reads_like_text(column):
        raise InputError(
            f"{where}: the name of the only column, {column[: _LONGEST_NAME[1]]!r}, looks like a text",
            "name the column with --text-column, or add a header to the table",
        )


def reads_like_text(column: str) -> bool:
    """Tell whether the name of a column is longer than names are, as where a table has no header."""
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
    """Read values separated and quoted as RFC 4180 says; by default the header line tells the separator."""
    csv.field_size_limit(_LARGEST_FIELD)
    lines = iter(lines)
    start = list(islice(lines, 1))
    delimiter = delimiter or _separator(start[0][1] if start else "")
    lines = chain(start, lines)
    # The parser wants line ends, since a quoted field may hold some.
    parser = csv.reader((line + "\n" for _, line in lines), strict=True, delimiter=delimiter)

    def cells() -> Iterator[tuple[int, list[str]]]:
        start = 1
        try:
            for row in parser:
                yield start, row
                start = parser.line_num + 1
        except csv.Error as error:
            # csv's own words for a bare carriage return speak of how Python should open the file.
            reason = "a carriage return outside quotes" if "new-line" in str(error) else str(error)
            raise InputError(f"{where}, line {start}: {reason}", "quote fields as in RFC 4180") from None

    return _table(where, cells(), columns, header)


def _separator(header: str) -> str:
    """What separates the most fields of a header line: a comma, or what spreadsheets write in its place."""

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
    """Read tab-separated values, which know no quoting: quotation marks are text, as in STS-B and GLUE.

    A row has all columns of the header, or all but the `optional` last ones.
    """

    def cells() -> Iterator[tuple[int, list[str]]]:
        for number, line in lines:
            if number == 1 and header is None:
                _refuse_other_separators(where, line, columns)
            yield number, line.split("\t") if line else []

    return _table(where, cells(), columns, header, optional)


def _refuse_other_separators(where: str, header: str, columns: Sequence[str] | None) -> None:
    found = sorted(set(",;|") & set(header))
    if found and "\t" not in header and header not in (columns or ()):
        raise InputError(
            f"{where}, line 1: expected tabs between the fields, but found {found[0]!r}",
            "name the file .csv, or use tabs",
        )


def _table(
    where: str,
    cells: Iterator[tuple[int, list[str]]],
    columns: Sequence[str] | None,
    header: Sequence[str] | None,
    optional: int = 0,
) -> Iterator[Numbered]:
    chosen = _choose(where, header, columns) if header else []
    blank = 0
    for number, row in cells:
        if header is None:
            header = row
            chosen = _choose(where, header, columns)
        elif not row:
            blank += 1
        elif len(row) not in (len(header), len(header) - optional):
            raise InputError(
                f"{where}, line {number}: {len(row)} fields, but the header has {len(header)}",
                "correct the line, or quote the separators in its texts",
            )
        else:
            yield number, {name: row[index] for name, index in chosen}
    report_blank(where, blank)


def _choose(where: str, header: Sequence[str], columns: Sequence[str] | None) -> list[tuple[str, int]]:
    refuse_repeated(where, header)
    require_columns(columns, header, where)
    return [(name, header.index(name)) for name in (columns or header)]


def refuse_repeated(where: str, header: Sequence[str]) -> None:
    """Refuse a table in which two columns have one name."""
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise InputError(f"{where}: the header contains the column {min(repeated)!r} more than once")


def parse_jsonl(name: str, lines: Lines, columns: Sequence[str] | None = None) -> Iterator[Numbered]:
    """Read JSON lines, an object each."""
    blank = 0
    for number, line in lines:
        if not line.strip():
            blank += 1
            continue
        where = f"{name}, line {number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}: not valid JSON ({error.msg} at column {error.colno})") from None
        except ValueError as error:  # a number of more than 4,300 digits
            raise InputError(f"{where}: {error}") from None
        except RecursionError:
            raise InputError(f"{where}: the JSON is nested too deeply") from None
        if not isinstance(values, dict):
            raise InputError(f"{where}: expected a JSON object, but found a {_json_type(values)}")
        if r"\ud" in line.lower():
            _require_whole_characters(values, where)
        require_columns(columns, list(values), where)
        yield number, ({name: values[name] for name in columns} if columns else values)
    report_blank(name, blank)


def _require_whole_characters(values: Mapping[str, Any], where: str) -> None:
    """JSON can escape one half of a surrogate pair, a string that no tokenizer and no file can take."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: the text contains an unpaired surrogate, which is not a valid character"
        ) from None


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def report_blank(where: str, count: int) -> None:
    """Warn of blank lines that were skipped."""
    if count:
        logger.warning("%s: skipped %d blank line%s", where, count, "" if count == 1 else "s")
