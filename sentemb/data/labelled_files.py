"""Rows of labelled sets in the formats in which they were published: GLUE, SentEval, CLUE and the hub's.

Texts are left as they stand: SST's end in a space, some of CR and MPQA are empty, quotation marks of GLUE are
text. Nothing is quoted but where a set's own format says so.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sentemb.data.archive import Place
from sentemb.data.catalogue import Entry, Published
from sentemb.data.files import Row, read_file
from sentemb.data.tables import Lines, Numbered, parse_csv, parse_jsonl, parse_tsv, require_columns
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


class Example(NamedTuple):
    """One row of a labelled set: its label as the file has it, None in a split whose labels nobody published.

    `published` tells the authors' files from those of the hub.
    """

    location: str
    text: str
    pair: str | None
    label: Any
    published: bool


def read_examples(entry: Entry, split: str, place: Place) -> Iterator[Example]:
    """Read one split of a labelled set from where it was found."""
    path = None if place.folder else file_of(entry, split, place)
    published = None if path and path.suffix == ".parquet" else entry.published
    columns = (published and published.columns) or entry.columns
    texts = len(entry.text_columns)
    if split in entry.unlabelled:
        columns = columns[:texts]
    if published is not None:
        yield from _published(published, split, place, columns, texts)
        return
    for row in read_file(path or place.path, columns=columns):
        yield _example(row, columns, texts, published=False)


def file_of(entry: Entry, split: str, place: Place) -> Path:
    """The file that holds a split: as published before as on the hub."""
    published = entry.published.files if entry.published else {}
    names = [files[split].split("+")[0] for files in (published, entry.files) if split in files]
    path = place.first_of(names)
    if path is None:
        hint = f"get a copy of {entry.name} that contains its {split} split"
        raise InputError(f"no such file: {place.name_of(names[0])}", hint)
    return path


def has_split(entry: Entry, split: str, place: Place) -> bool:
    """Tell whether a copy of a set has one of its splits."""
    try:
        return bool(place.folder or file_of(entry, split, place))
    except InputError:
        return False


def _published(
    published: Published, split: str, place: Place, columns: tuple[str, ...], texts: int
) -> Iterator[Example]:
    if published.format == "file-per-label":
        for label, file in published.files.items():
            for number, line in place.lines(file, encoding=published.encoding):
                location = f"{place.name_of(file)}:{number}"
                yield Example(location, line, None, label, True)
        return
    for file in published.files[split].split("+"):
        where, lines = place.name_of(file), place.lines(file, encoding=published.encoding)
        if published.format == "label-first":
            yield from _label_first(where, lines)
            continue
        wanted = [part for column in columns for part in column.split("+")]
        for number, values in _table(published, split, where, lines, wanted):
            yield _example(Row(f"{where}:{number}", values), columns, texts, published=True)


def _table(
    published: Published, split: str, where: str, lines: Lines, columns: list[str]
) -> Iterator[Numbered]:
    header = published.headers.get(split)
    if published.format == "tsv":
        whole = _whole_lines(where, lines) if published.broken_lines else lines
        return parse_tsv(where, whole, columns, header=header, optional=published.optional)
    if published.format == "jsonl":
        return parse_jsonl(where, lines, columns)
    if published.format == "json-member":
        return _member(where, lines, published.member, columns)
    delimiter = "," if published.format == "csv" else "\t"
    return parse_csv(where, lines, columns, header=header, delimiter=delimiter)


def _example(row: Row, columns: tuple[str, ...], texts: int, *, published: bool) -> Example:
    first, *second = [" ".join(row.text(part) for part in column.split("+")) for column in columns[:texts]]
    label = row.values[columns[texts]] if columns[texts:] else None
    return Example(row.location, first, second[0] if second else None, label, published)


def _label_first(where: str, lines: Lines) -> Iterator[Example]:
    """A label, a space and the text; of a label such as TREC's `DESC:manner` the coarse part counts."""
    for number, line in lines:
        label, space, text = line.partition(" ")
        if not space:
            raise InputError(f"{where}, line {number}: expected a label, a space and a text")
        yield Example(f"{where}:{number}", text, None, label.partition(":")[0], True)


def _whole_lines(where: str, lines: Lines) -> Lines:
    """The lines with as many tabs as the first, and others with more, which the parser refuses."""
    tabs, broken = 0, 0
    for number, line in lines:
        tabs = tabs or line.count("\t")
        if line and line.count("\t") < tabs:
            broken += 1
        else:
            yield number, line
    if broken:
        logger.warning("%s: skipped %d lines with fewer fields than the header", where, broken)


def _member(where: str, lines: Lines, member: str, columns: list[str]) -> Iterator[Numbered]:
    try:
        members = json.loads("\n".join(line for _, line in lines))
    except json.JSONDecodeError as error:
        raise InputError(f"{where}, line {error.lineno}: not valid JSON ({error.msg})") from None
    except ValueError as error:  # a number of more than 4,300 digits
        raise InputError(f"{where}: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply") from None
    if not isinstance(members, dict) or not isinstance(members.get(member), list):
        raise InputError(f"{where} does not contain a list {member!r}", "get a complete copy")
    for number, values in enumerate(members[member], start=1):
        require_columns(columns, list(values), f"{where}, {member} {number}")
        yield number, values
