"""Rows of the catalogue's data sets in all formats: the authors', SentEval's, GLUE's, CLUE's and the hub's.

Texts stay as they are: SST's end in a space, some of CR and MPQA are empty, quotation marks of GLUE are text.
An empty line of a gold file of SemEval marks a pair that nobody scored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from sentemb.data.catalogue import Entry, Published, gold_file
from sentemb.data.files import Row, read_file
from sentemb.data.locate import Place
from sentemb.data.tables import (
    Lines,
    Numbered,
    parse_csv,
    parse_json,
    parse_jsonl,
    parse_tsv,
    require_columns,
)
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


def published_at(entry: Entry, split: str, place: Place) -> Published | None:
    """Return how the files of a split at a place were published; None if they are those of the hub."""
    published = entry.published
    if published is None or place.folder:
        return published
    hub = [entry.files[split]] if split in entry.files else []
    if place.path.is_file():
        return None if any(file.endswith(place.path.name) for file in hub) else published
    return None if not place.first_of(published.of_split(split)) and place.first_of(hub) else published


def has_split(entry: Entry, split: str, place: Place) -> bool:
    """Tell whether a copy of a set has one of its splits."""
    published = entry.published.of_split(split) if entry.published else []
    hub = [entry.files[split]] if split in entry.files else []
    return bool(place.folder or place.first_of([*published, *hub]))


def read_split(entry: Entry, split: str, place: Place) -> Iterator[Row]:
    """Yield the rows of a split, whose values are the entry's columns in their order."""
    return (row for _, rows in read_parts(entry, split, place) for row in rows)


def read_parts(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, Iterable[Row]]]:
    """Yield the name and the rows of each part of a split; one part, with the set's name, if it has none."""
    columns = entry.text_columns if split in entry.unlabelled else entry.columns
    published = published_at(entry, split, place)
    if published is None:
        file = place.path if place.path.is_file() else place.path / place.folder / entry.files[split]
        yield entry.name, read_file(file, columns=columns)
    elif published.format == "semeval":
        for part, name in published.files.items():
            yield part if entry.parts else entry.name, _read_semeval(published, place, name, columns)
    elif published.format == "file-per-label":
        yield entry.name, _read_file_per_label(published, place, columns)
    else:
        yield entry.name, _read_tables(entry, published, split, place, columns)


def read_subset(entry: Entry, split: str) -> Iterator[Row]:
    """Stream the rows of a set that is a subset of a repository on the hub."""
    from sentemb.data.hub import stream

    hub_id, where = str(entry.hub_id), f"{entry.hub_id} {entry.config}"
    rows = stream(hub_id, revision=entry.revision, columns=entry.columns, config=entry.config, split=split)
    return (Row(f"{where}:{number}", values) for number, values in rows)


def _read_tables(
    entry: Entry, published: Published, split: str, place: Place, columns: Sequence[str]
) -> Iterator[Row]:
    names = (published.columns or entry.columns)[: len(columns)]
    texts = len(entry.text_columns)
    files = published.of_split(split)
    if not place.folder and place.first_of(files[:1]) is None:
        hint = f"get a copy of {entry.name} that contains its {split} split"
        raise InputError(f"no such file: {place.name_of(files[0])}", hint)
    for file in files:
        where, lines = place.name_of(file), place.lines(file, encoding=published.encoding)
        wanted = [part for name in names for part in name.split("+")]
        for number, values in _parse(published, split, where, lines, wanted):
            row = Row(f"{where}:{number}", values)
            cells: list[object] = [
                " ".join(map(row.text, name.split("+"))) if place_ < texts else values[name]
                for place_, name in enumerate(names)
            ]
            if published.no_label is None or cells[-1] != published.no_label:
                yield Row(row.location, dict(zip(columns, cells, strict=True)))


def _parse(
    published: Published, split: str, where: str, lines: Lines, columns: list[str]
) -> Iterator[Numbered]:
    header = published.header or published.headers.get(split)
    if published.format == "tsv":
        whole = _whole_lines(where, lines) if published.broken_lines else lines
        return parse_tsv(where, whole, columns, header=header, optional=published.optional)
    if published.format == "jsonl":
        return parse_jsonl(where, lines, columns)
    if published.format == "json-member":
        return _parse_member(where, lines, published.member, columns)
    if published.format == "label-first":
        return _parse_label_first(where, lines, columns)
    delimiter = "," if published.format == "csv" else "\t"
    return parse_csv(where, lines, columns, header=header, delimiter=delimiter)


def _whole_lines(where: str, lines: Lines) -> Lines:
    """Yield the lines with as many tabs as the first, and those with more, which the parser refuses."""
    tabs, broken = 0, 0
    for number, line in lines:
        tabs = tabs or line.count("\t")
        if line and line.count("\t") < tabs:
            broken += 1
        else:
            yield number, line
    if broken:
        logger.warning("%s: skipped %d lines with fewer fields than the header", where, broken)


def _parse_member(where: str, lines: Lines, member: str, columns: list[str]) -> Iterator[Numbered]:
    members = parse_json("\n".join(line for _, line in lines), where)
    if not isinstance(members, dict) or not isinstance(members.get(member), list):
        raise InputError(f"{where} does not contain a list {member!r}", "get a complete copy")
    for number, values in enumerate(members[member], start=1):
        require_columns(columns, list(values), f"{where}, {member} {number}")
        yield number, values


def _parse_label_first(where: str, lines: Lines, columns: list[str]) -> Iterator[Numbered]:
    """Yield lines of a label, a space and a text; of a label such as TREC's `DESC:manner` the coarse part."""
    for number, line in lines:
        label, space, text = line.partition(" ")
        if not space:
            raise InputError(f"{where}, line {number}: expected a label, a space and a text")
        yield number, dict(zip(columns, (text, label.partition(":")[0]), strict=True))


def _read_file_per_label(published: Published, place: Place, columns: Sequence[str]) -> Iterator[Row]:
    for label, file in published.files.items():
        for number, line in place.lines(file, encoding=published.encoding):
            yield Row(f"{place.name_of(file)}:{number}", dict(zip(columns, (line, label), strict=True)))


def _read_semeval(
    published: Published, place: Place, text_name: str, columns: Sequence[str]
) -> Iterator[Row]:
    """Yield sentences and scores of two files with the same number of lines."""
    gold_name = gold_file(text_name)
    second_download = f"../{published.gold}/{gold_name}"
    if place.first_of([gold_name]) is None and place.first_of([second_download]):
        gold_name = second_download
    texts, scores = list(place.lines(text_name)), list(place.lines(gold_name))
    if published.scored_first:
        texts = texts[: len(scores)]
    if len(texts) != len(scores):
        raise InputError(
            f"{place.name_of(text_name)} has {len(texts):,} pairs but {place.name_of(gold_name)} "
            f"{len(scores):,} scores",
            "get complete copies of both",
        )
    for (number, text), (_, score) in zip(texts, scores, strict=True):
        first, tab, rest = text.partition("\t")
        if not score.strip():
            continue
        if not tab:
            raise InputError(
                f"{place.name_of(text_name)}, line {number}: expected two sentences with a tab between them"
            )
        cells = (first, rest.partition("\t")[0], score)
        yield Row(f"{place.name_of(gold_name)}:{number}", dict(zip(columns, cells, strict=True)))
