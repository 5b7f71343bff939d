"""Scored pairs in the files of their authors, and in the hub's subsets: the sets of many languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sentemb.data.archive import Tree
from sentemb.data.catalogue import Entry
from sentemb.data.files import Row
from sentemb.data.labelled_files import read_examples
from sentemb.data.locate import Place
from sentemb.data.senteval import Pair, read_semeval


def is_published(entry: Entry, place: Place) -> bool:
    """Tell whether a set lies somewhere as its authors published it."""
    if entry.published is None or place.path is None:
        return False
    return any((place.path / file).is_file() for file in entry.published.files.values())


def read_published(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    """Read one split of a set as published."""
    published = entry.published
    if published is None or place.path is None:
        raise ValueError(f"{entry.name} does not lie in files as published")
    if published.format != "semeval":
        rows = ((row.location, (row.text, row.pair, row.label)) for row in read_examples(entry, split, place))
        records = (Row(where, dict(zip(entry.columns, row, strict=True))) for where, row in rows)
        yield entry.name, pairs_of(records, entry.columns)
        return
    tree = Tree(place.path)
    for part, file in published.files.items():
        gold = file.replace(".input.", ".gs.")
        beside = f"../{published.gold}/{gold}"
        if not (place.path / gold).is_file() and (place.path / beside).is_file():
            gold = beside
        name = part if entry.parts else entry.name
        yield name, read_semeval(tree, file, gold, scored_first=published.scored_first)


def read_subset(entry: Entry, split: str) -> list[Pair]:
    """Read one split of a set that is a subset of a repository on the hub."""
    from sentemb.data.hub import stream

    where = f"{entry.hub_id} {entry.config}"
    rows = stream(
        str(entry.hub_id), revision=entry.revision, columns=entry.columns, config=entry.config, split=split
    )
    return pairs_of((Row(f"{where}:{number}", values) for number, values in rows), entry.columns)


def pairs_of(records: Iterable[Row], columns: Sequence[str]) -> list[Pair]:
    """Take pairs and scores from rows."""
    first, second, score = columns
    return [Pair(row.text(first), row.text(second), row.number(score)) for row in records]
