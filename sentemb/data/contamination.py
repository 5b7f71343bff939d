"""Test texts that occur in training text, which makes scores too high: the same words, or inside longer ones.

Letter case, punctuation, white space, tokenization and Unicode variants do not matter.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from sentemb._uris import without_secrets
from sentemb.data.catalogue import check_row_count, entries, expand, get
from sentemb.data.files import Row, names_a_file
from sentemb.data.locate import DataDir, open_split
from sentemb.data.sources import read_rows
from sentemb.data.sts import STS_SETS, load_scored_pairs
from sentemb.errors import InputError

How = Literal["exact", "inside"]
GROUPS: Mapping[str, tuple[str, ...]] = {
    "sts": STS_SETS,
    "transfer": ("mr", "cr", "subj", "mpqa", "sst2-senteval", "trec", "mrpc-msr"),
}
"""Names for several sets: the papers' STS sets, and SentEval's transfer tasks."""
INSIDE_WORDS = 6
"""Texts of fewer words occur inside longer ones by chance."""
_REPORT_EVERY = 100_000
# Chinese and Japanese are written without spaces: each character is a word. Elsewhere a run of letters and
# digits is one.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
)


class HeldOut(NamedTuple):
    """The name, the split (empty for a file) and the texts of each row of a test set."""

    name: str
    split: str
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Finding:
    """A text of a test set that training text contains, and the first of the best places."""

    text: str
    how: How
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

    def to_json(self) -> dict[str, Any]:
        """Return everything, with every text found, as JSON values."""
        return asdict(self) | {"exact": self.count("exact"), "inside": self.count("inside")}


def load_held_out(
    names: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    data_dir: DataDir = None,
    check_rows: bool = True,
) -> list[HeldOut]:
    """Read the texts of test sets: sets of the catalogue, families, `GROUPS`, or files.

    Of a data set the test split is read, else dev, else, in cross-validation, all rows; of a file the
    named columns, by default every cell that is a text.
    """
    found = []
    flat = expand([member for group in names for member in GROUPS.get(group, (group,))])
    for name in dict.fromkeys(flat):
        if names_a_file(name):
            rows = [tuple(texts_of(row)) for row in read_rows(name, columns=columns)]
            found.append(HeldOut(without_secrets(name), "", [*filter(None, rows)]))
            continue
        entry = get(name)
        split = next((split for split in ("test", "dev") if split in entry.splits), entry.splits[0])
        if entry.kind == "scored-pairs":
            pairs = load_scored_pairs(name, split=split, data_dir=data_dir, check_rows=check_rows)
            rows = [*zip(pairs.first, pairs.second, strict=True)]
        elif entry.kind == "labelled":
            opened = open_split(entry, split, data_dir)
            rows = [tuple(row.text(column) for column in entry.text_columns) for row in opened.rows]
            where, expected = f"{name} {split} ({opened.source})", entry.rows.get(split)
            check_row_count(where, len(rows), expected, strict=check_rows)
        else:
            known = ", ".join(other.name for other in entries("scored-pairs")[:8])
            raise InputError(f"{name} is not a test set", f"name one such as {known}, or a file")
        found.append(HeldOut(name, split, rows))
    return found


def find_contamination(
    train: Iterable[Row], sets: Sequence[HeldOut], *, progress: Callable[[int], None] | None = None
) -> tuple[int, list[SetOverlap]]:
    """Search a stream of training text for the texts of test sets; return the texts read, and overlaps."""
    keys = [[tuple(map(words_key, row)) for row in one.rows] for one in sets]
    index = KnownTexts(key for one in keys for row in one for key in row if key)
    best: dict[str, tuple[How, str, str]] = {}
    count = 0
    for record in train:
        for text in texts_of(record):
            count += 1
            for key, how in index.find(text):
                if key not in best or (how, best[key][0]) == ("exact", "inside"):
                    best[key] = (how, record.location, text)
            if progress is not None and count % _REPORT_EVERY == 0:
                progress(count)
    overlaps = []
    for one, rows in zip(sets, keys, strict=True):
        as_written: dict[str, str] = {}
        for own, row in zip(rows, one.rows, strict=True):
            for key, text in zip(own, row, strict=True):
                as_written.setdefault(key, text)
        as_written.pop("", None)
        findings = tuple(Finding(text, *best[key]) for key, text in as_written.items() if key in best)
        whole = sum(any(own) and all(key in best for key in own if key) for own in rows)
        overlaps.append(SetOverlap(one.name, one.split, len(as_written), len(rows), whole, findings))
    return count, overlaps


def texts_of(record: Row) -> list[str]:
    """Return the cells of a row that are texts: strings, except numbers of a table."""
    found = []
    for value in record.values.values():
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                found.append(value)
    return found


def words_key(text: str) -> str:
    """Return the words of a text, joined; a text without words as it is, without its white space."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORD.findall(folded) or folded.split())


class KnownTexts:
    """Texts to search for, by their `words_key`."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = dict.fromkeys(keys)
        self._by_beginning: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
        for words in map(str.split, self._keys):
            if len(words) >= INSIDE_WORDS:
                self._by_beginning[tuple(words[:INSIDE_WORDS])].append(words)

    def find(self, text: str) -> Iterator[tuple[str, How]]:
        """Yield the key of each known text that a text repeats or has inside, each once."""
        key = words_key(text)
        if key in self._keys:
            yield key, "exact"
        words, inside = key.split(), set()
        for start in range(len(words) - INSIDE_WORDS + 1):
            for known in self._by_beginning.get(tuple(words[start : start + INSIDE_WORDS]), ()):
                if len(known) < len(words) and words[start : start + len(known)] == known:
                    inside.add(" ".join(known))
        yield from ((known, "inside") for known in sorted(inside))
