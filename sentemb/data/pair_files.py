"""Scored pairs in SentEval's layout, in the files of their authors and in subsets of hub repositories.

Texts are UTF-8, lines end at line feeds only (U+0085 occurs in published texts), nothing is quoted, and an
empty line of a gold file marks a pair that nobody scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sentemb.data.archive import Place
from sentemb.data.catalogue import Entry, Published
from sentemb.data.files import Row
from sentemb.data.labelled_files import read_examples
from sentemb.data.tables import parse_tsv
from sentemb.errors import InputError

SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_SICK_COLUMNS = ("sentence_A", "sentence_B", "relatedness_score")
# STS-B: genre, file, year, index, score, sentence 1, sentence 2, and for some rows two sources.
_STSB_COLUMNS, _STSB_WIDTHS = (5, 6, 4), (7, 9)


class Pair(NamedTuple):
    """Two sentences and how similar people found them."""

    first: str
    second: str
    score: float


def is_divided(entry: Entry, place: Place) -> bool:
    """Tell whether a set lies in the files of SentEval or of its authors, which know its parts."""
    published = entry.published
    return bool(
        place.folder or (published and place.path.is_dir() and place.first_of(published.files.values()))
    )


def read_parts(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    """Read one split of a set that `is_divided`, by its parts."""
    if place.folder:
        yield from _of_senteval(entry, split, place)
    elif entry.published is not None and entry.published.format == "semeval":
        yield from _of_semeval(entry, entry.published, place)
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


def _of_senteval(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    if entry.parts:
        for part in entry.parts:
            yield part, _read_semeval(place, f"STS.input.{part}.txt", f"STS.gs.{part}.txt")
    elif entry.name == "stsb":
        yield entry.name, list(_read_benchmark(place, f"sts-{split}.csv"))
    else:
        files = SICK_FILES.values() if entry.name == "sickr-mteb" else [SICK_FILES[split]]
        yield entry.name, [pair for file in files for pair in _read_sick(place, file)]


def _of_semeval(entry: Entry, published: Published, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    for part, file in published.files.items():
        gold = file.replace(".input.", ".gs.")
        beside = f"../{published.gold}/{gold}"
        if place.first_of([gold]) is None and place.first_of([beside]):
            gold = beside
        name = part if entry.parts else entry.name
        yield name, _read_semeval(place, file, gold, scored_first=published.scored_first)


def _read_semeval(place: Place, text_name: str, gold_name: str, *, scored_first: bool = False) -> list[Pair]:
    """Sentences and scores from two files of as many lines."""
    texts, scores = list(place.lines(text_name)), list(place.lines(gold_name))
    if scored_first:
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
            raise InputError(f"{place.name_of(text_name)}, line {number}: no tab between two sentences")
        second = rest.split("\t")[0]
        pairs.append(Pair(first, second, _score(score, f"{place.name_of(gold_name)}, line {number}")))
    return pairs


def _read_benchmark(place: Place, name: str) -> Iterator[Pair]:
    for number, line in place.lines(name):
        cells = line.split("\t")
        where = f"{place.name_of(name)}, line {number}"
        if len(cells) not in _STSB_WIDTHS:
            raise InputError(f"{where}: {len(cells)} tab-separated columns")
        first, second, score = (cells[column] for column in _STSB_COLUMNS)
        yield Pair(first, second, _score(score, where))


def _read_sick(place: Place, name: str) -> list[Pair]:
    """The columns go by their names, since releases differ in the rest."""
    where = place.name_of(name)
    rows = parse_tsv(where, place.lines(name), _SICK_COLUMNS)
    return pairs_of((Row(f"{where}:{number}", values) for number, values in rows), _SICK_COLUMNS)


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{where}: {text!r} is not a score")
    return score
