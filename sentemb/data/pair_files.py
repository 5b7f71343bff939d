"""Scored pairs in the files of their authors, as SentEval has them too, and in subsets of hub repositories.

An empty line of a gold file marks a pair that nobody scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sentemb.data.archive import Place
from sentemb.data.catalogue import Entry, Published, gold_file
from sentemb.data.files import Row
from sentemb.data.labelled_files import read_examples
from sentemb.errors import InputError


class Pair(NamedTuple):
    """Two sentences and how similar people found them."""

    first: str
    second: str
    score: float


def is_divided(entry: Entry, place: Place) -> bool:
    """Tell whether a set lies in the files of SentEval or of its authors, which know its parts."""
    published = entry.published
    return bool(place.folder or (published and place.path.is_dir() and place.first_of(published.file_names)))


def read_parts(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    """Read one split of a set that `is_divided`, by its parts."""
    published = entry.published
    if published is not None and published.format == "semeval":
        for part, file in published.files.items():
            yield part if entry.parts else entry.name, _read_semeval(published, place, file)
    else:
        rows = (
            Row(one.location, dict(zip(entry.columns, (one.text, one.pair, one.label), strict=True)))
            for one in read_examples(entry, split, place)
        )
        yield entry.name, pairs_of(rows, entry.columns)


def read_subset(entry: Entry, split: str) -> list[Pair]:
    """Read one split of a set that is a subset of a repository on the hub."""
    from sentemb.data.hub import stream

    where = f"{entry.hub_id} {entry.config}"
    rows = stream(
        str(entry.hub_id), revision=entry.revision, columns=entry.columns, config=entry.config, split=split
    )
    return pairs_of((Row(f"{where}:{number}", values) for number, values in rows), entry.columns)


def pairs_of(rows: Iterable[Row], columns: Sequence[str]) -> list[Pair]:
    """Take pairs and scores from rows."""
    first, second, score = columns
    return [Pair(row.text(first), row.text(second), row.number(score)) for row in rows]


def _read_semeval(published: Published, place: Place, text_name: str) -> list[Pair]:
    """Sentences and scores from two files of as many lines."""
    gold_name = gold_file(text_name)
    beside = f"../{published.gold}/{gold_name}"
    if place.first_of([gold_name]) is None and place.first_of([beside]):
        gold_name = beside
    texts, scores = list(place.lines(text_name)), list(place.lines(gold_name))
    if published.scored_first:
        texts = texts[: len(scores)]
    if len(texts) != len(scores):
        raise InputError(
            f"{place.name_of(text_name)} has {len(texts):,} pairs but {place.name_of(gold_name)} "
            f"{len(scores):,} scores",
            "get complete copies of both",
        )
    pairs = []
    for (number, text), (_, score) in zip(texts, scores, strict=True):
        first, tab, rest = text.partition("\t")
        if not score.strip():
            continue
        if not tab:
            raise InputError(
                f"{place.name_of(text_name)}, line {number}: expected two sentences with a tab between them"
            )
        graded = Row(f"{place.name_of(gold_name)}:{number}", {"score": score})
        pairs.append(Pair(first, rest.split("\t")[0], graded.number("score")))
    return pairs
