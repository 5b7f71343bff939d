"""Test texts that occur in training text, which makes scores too high."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from sentemb._uris import without_secrets
from sentemb.data.catalogue import Entry, entries, expand, get
from sentemb.data.files import Row, names_a_file
from sentemb.data.labelled import load_labelled, load_unlabelled
from sentemb.data.near_duplicates import How, Match, NearTexts, fold
from sentemb.data.sources import read_rows
from sentemb.data.sts import STS_SETS, load_scored_pairs
from sentemb.errors import InputError

GROUPS: Mapping[str, tuple[str, ...]] = {
    "sts": STS_SETS,
    "transfer": ("mr", "cr", "subj", "mpqa", "sst2-senteval", "trec", "mrpc-msr"),
}
"""Names for several sets: the papers' STS sets, and SentEval's transfer tasks."""
_WAYS: tuple[How, ...] = ("exact", "inside", "near")
_REPORT_EVERY = 100_000


@dataclass(frozen=True)
class HeldOut:
    """The name, the split (empty for a file) and the texts of each row of a test set.

    Example:
        >>> HeldOut("own", "test", (("a cat sat", "birds fly"),)).rows[0]
        ('a cat sat', 'birds fly')
    """

    name: str
    split: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Finding:
    """A text of a test set that training text contains, and the first of the best places."""

    text: str
    how: How
    nearness: float
    location: str
    found: str


@dataclass(frozen=True)
class SetOverlap:
    """The overlap with one test set: its unique texts, rows, and rows of which every text was found."""

    name: str
    split: str
    texts: int
    rows: int
    whole_rows: int
    findings: tuple[Finding, ...]

    def count(self, how: How) -> int:
        """Count the texts whose best match is of one kind."""
        return sum(one.how == how for one in self.findings)


@dataclass(frozen=True)
class Contamination:
    """The overlap of `texts` training texts with each test set; texts are near from `nearness` on."""

    texts: int
    nearness: float
    sets: tuple[SetOverlap, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything, with every text found, as JSON values."""
        sets = [asdict(one) | {how: one.count(how) for how in _WAYS} for one in self.sets]
        return {"texts": self.texts, "nearness": self.nearness, "sets": sets}


def load_held_out(
    names: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    check_rows: bool = True,
) -> list[HeldOut]:
    """Read the texts of test sets.

    Args:
        names: Data sets of the catalogue with scored pairs or labels, families of these, `sts`, `transfer`,
            or files. Of a data set the test split is read, else dev, else, in cross-validation, all rows.
        columns: Text columns of the files; by default every cell that is a text.
        data_dir: As for `read_rows`.
        check_rows: As for `read_rows`.

    Example:
        >>> (held_out,) = load_held_out(["pairs.csv"])
        >>> held_out.name
        'pairs.csv'
    """
    flat = expand([member for name in names for member in GROUPS.get(name, (name,))])
    options = {"data_dir": data_dir, "check_rows": check_rows}
    return [
        _of_file(name, columns) if names_a_file(name) else _of_entry(get(name), options)
        for name in dict.fromkeys(flat)
    ]


def find_contamination(
    train: Iterable[Row],
    sets: Sequence[HeldOut],
    *,
    nearness: float = 0.9,
    progress: Callable[[int], None] | None = None,
) -> Contamination:
    """Search training text, of which one row is in memory at a time, for the texts of test sets.

    Args:
        train: Rows of the training text, such as those of `read_rows`; every cell that is a text counts.
        sets: The test sets.
        nearness: Texts are near from this share of common words, above 0.5 and at most 1: twice the words
            that both have in the same order, over the words of both.
        progress: Called with the number of texts read so far, now and then.

    Returns:
        The overlaps.

    Raises:
        InputError: `nearness` is out of range, or the rows are broken.

    Example:
        >>> found = find_contamination(read_rows("sentences.txt"), load_held_out(["pairs.csv"]))
        >>> found.texts
        32
    """
    if not 0.5 < nearness <= 1:
        raise InputError(f"nearness is {nearness}", "choose a value above 0.5 and up to 1, such as 0.9")
    folded = [[tuple(map(fold, row)) for row in one.rows] for one in sets]
    texts = list(dict.fromkeys(text for one in folded for row in one for text in row if text))
    index = NearTexts(texts, nearness=nearness)
    best: dict[int, tuple[Match, str, str]] = {}
    count = 0
    for record in train:
        for text in texts_of(record):
            count += 1
            for match in index.find(text):
                if match.number not in best or _rank(match) > _rank(best[match.number][0]):
                    best[match.number] = (match, record.location, text)
            if progress is not None and count % _REPORT_EVERY == 0:
                progress(count)
    found = {texts[number]: how for number, how in best.items()}
    results = (_overlap(one, rows, found) for one, rows in zip(sets, folded, strict=True))
    return Contamination(count, nearness, tuple(results))


def texts_of(record: Row) -> list[str]:
    """Return the cells of a row that are texts: strings, except numbers of a table."""
    return [value for value in record.values.values() if isinstance(value, str) and not _is_number(value)]


def _rank(match: Match) -> tuple[int, float]:
    return -_WAYS.index(match.how), match.nearness


def _overlap(
    one: HeldOut, folded: Sequence[tuple[str, ...]], found: Mapping[str, tuple[Match, str, str]]
) -> SetOverlap:
    as_written: dict[str, str] = {}
    for key, text in zip(chain.from_iterable(folded), chain.from_iterable(one.rows), strict=True):
        if key:
            as_written.setdefault(key, text)
    findings = []
    for key, text in as_written.items():
        if key in found:
            match, location, train_text = found[key]
            findings.append(Finding(text, match.how, match.nearness, location, train_text))
    whole_rows = sum(any(keys) and all(key in found for key in keys if key) for keys in folded)
    return SetOverlap(one.name, one.split, len(as_written), len(folded), whole_rows, tuple(findings))


def _of_file(name: str, columns: Sequence[str] | None) -> HeldOut:
    rows = (tuple(texts_of(row)) for row in read_rows(name, columns=columns))
    return HeldOut(without_secrets(name), "", tuple(filter(None, rows)))


def _of_entry(entry: Entry, options: Mapping[str, Any]) -> HeldOut:
    if entry.kind not in ("scored-pairs", "labelled"):
        known = ", ".join(other.name for other in entries("scored-pairs")[:8])
        raise InputError(f"{entry.name} is not a test set", f"name one such as {known}, or a file")
    split = next((split for split in ("test", "dev") if split in entry.splits), entry.splits[0])
    if entry.kind == "scored-pairs":
        pairs = load_scored_pairs(entry.name, split=split, **options)
        return HeldOut(entry.name, split, tuple(zip(pairs.first, pairs.second, strict=True)))
    load = load_unlabelled if split in entry.unlabelled else load_labelled
    return HeldOut(entry.name, split, tuple(load(entry.name, split=split, **options).rows()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
