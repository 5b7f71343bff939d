"""The file formats inside SentEval's `downstream` folder that hold scored pairs.

Texts are UTF-8, lines end at line feeds only (U+0085 occurs in published texts), nothing is quoted, and an
empty line of a gold file marks a pair that nobody scored.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sentemb.data.archive import Tree
from sentemb.data.catalogue import Entry
from sentemb.data.lines import decode_lines
from sentemb.data.locate import Place
from sentemb.errors import InputError

SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_STSB_COLUMNS = (5, 6, 4)


class Pair(NamedTuple):
    """Two sentences and how similar people found them."""

    first: str
    second: str
    score: float


def read_parts(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, list[Pair]]]:
    """Read one set in SentEval's layout."""
    if place.tree is None or entry.senteval is None:
        raise ValueError(f"{entry.name} does not lie in SentEval's layout")
    tree, folder = place.tree, entry.senteval
    if entry.parts:
        for part in entry.parts:
            yield part, read_semeval(tree, f"{folder}/STS.input.{part}.txt", f"{folder}/STS.gs.{part}.txt")
    elif entry.name == "stsb":
        yield entry.name, _read_benchmark(tree, f"{folder}/sts-{split}.csv")
    elif entry.name == "sickr-mteb":
        pairs = [pair for file in SICK_FILES.values() for pair in _read_sick(tree, f"{folder}/{file}")]
        yield entry.name, pairs
    else:
        yield entry.name, _read_sick(tree, f"{folder}/{SICK_FILES[split]}")


def read_semeval(tree: Tree, text_name: str, gold_name: str, *, scored_first: bool = False) -> list[Pair]:
    """Read sentences and scores from two files of as many lines."""
    texts, scores = _lines(tree, text_name), _lines(tree, gold_name)
    if scored_first:
        texts = texts[: len(scores)]
    if len(texts) != len(scores):
        raise InputError(
            f"{tree.path_of(text_name)} has {len(texts):,} pairs but {tree.path_of(gold_name)} "
            f"{len(scores):,} scores",
            "get complete copies of both",
        )
    pairs = []
    for number, (text, score) in enumerate(zip(texts, scores, strict=True), start=1):
        if not score.strip():
            continue
        cells = text.split("\t")
        if len(cells) < 2:
            raise InputError(f"{tree.path_of(text_name)}, line {number}: no tab between two sentences")
        pairs.append(Pair(cells[0], cells[1], _score(score, f"{tree.path_of(gold_name)}, line {number}")))
    return pairs


def _read_benchmark(tree: Tree, name: str) -> list[Pair]:
    """STS-B: genre, file, year, index, score, sentence 1, sentence 2, and for some rows two sources."""
    return _read_columns(tree, name, _STSB_COLUMNS, skip=0, widths=lambda width: width in (7, 9))


def _read_sick(tree: Tree, name: str) -> list[Pair]:
    """SICK: a header, then one pair a line; the columns go by name, since releases differ in the rest."""
    lines = _lines(tree, name)
    header = lines[0].split("\t") if lines else []
    wanted = ("sentence_A", "sentence_B", "relatedness_score")
    absent = [column for column in wanted if column not in header]
    if absent:
        raise InputError(f"{tree.path_of(name)}, line 1: no column {absent[0]!r} in the header")
    first, second, score = (header.index(column) for column in wanted)
    return _read_columns(
        tree, name, (first, second, score), skip=1, widths=lambda width: width == len(header)
    )


def _read_columns(
    tree: Tree, name: str, columns: tuple[int, int, int], *, skip: int, widths: Callable[[int], bool]
) -> list[Pair]:
    pairs = []
    for number, line in enumerate(_lines(tree, name)[skip:], start=skip + 1):
        cells = line.split("\t")
        where = f"{tree.path_of(name)}, line {number}"
        if not widths(len(cells)):
            raise InputError(f"{where}: {len(cells)} tab-separated columns")
        first, second, score = (cells[column] for column in columns)
        pairs.append(Pair(first, second, _score(score, where)))
    return pairs


def _lines(tree: Tree, name: str) -> list[str]:
    return [line for _, line in decode_lines(io.BytesIO(tree.read(name)), tree.path_of(name))]


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{where}: {text!r} is no score")
    return score
