"""Test texts that occur in training text, which makes scores too high: exact, near, or inside longer ones.

Two texts of n and m words, of which L are in both in the same order, are as near as 2 L / (n + m). At
nearness t they share at least t n / (2 - t) words, so that one of the n - t n / (2 - t) + 1 rarest words of
the one is among those of the other (prefix filtering; Chaudhuri et al., ICDE 2006). Only texts that share a
rare word are compared, and no near text is missed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from sentemb._uris import without_secrets
from sentemb.data.catalogue import Entry, entries, expand, get
from sentemb.data.files import Row, names_a_file
from sentemb.data.labelled import load_labelled, load_unlabelled
from sentemb.data.locate import DataDir
from sentemb.data.sources import read_rows
from sentemb.data.sts import STS_SETS, load_scored_pairs
from sentemb.errors import InputError

How = Literal["exact", "inside", "near"]
GROUPS: Mapping[str, tuple[str, ...]] = {
    "sts": STS_SETS,
    "transfer": ("mr", "cr", "subj", "mpqa", "sst2-senteval", "trec", "mrpc-msr"),
}
"""Names for several sets: the papers' STS sets, and SentEval's transfer tasks."""
INSIDE_WORDS = 6
"""Texts of fewer words occur inside longer ones by chance."""
_WAYS: tuple[How, ...] = ("exact", "inside", "near")
_REPORT_EVERY = 100_000
# Chinese and Japanese are written without spaces: each character is a word. Elsewhere a run of letters and
# digits is one, so that punctuation and tokenization do not matter.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
)
_ROUNDING = 1e-9


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
    data_dir: DataDir = None,
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
    found = []
    flat = expand([member for group in names for member in GROUPS.get(group, (group,))])
    for name in dict.fromkeys(flat):
        if names_a_file(name):
            rows = (tuple(texts_of(row)) for row in read_rows(name, columns=columns))
            found.append(HeldOut(without_secrets(name), "", tuple(filter(None, rows))))
        else:
            found.append(_of_entry(get(name), {"data_dir": data_dir, "check_rows": check_rows}))
    return found


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
    best: dict[str, tuple[Match, str, str]] = {}
    count = 0
    for record in train:
        for text in texts_of(record):
            count += 1
            for match in index.find(text):
                key = texts[match.number]
                if key not in best or _rank(match) > _rank(best[key][0]):
                    best[key] = (match, record.location, text)
            if progress is not None and count % _REPORT_EVERY == 0:
                progress(count)
    overlaps = (_overlap(one, rows, best) for one, rows in zip(sets, folded, strict=True))
    return Contamination(count, nearness, tuple(overlaps))


def texts_of(record: Row) -> list[str]:
    """Return the cells of a row that are texts: strings, except numbers of a table."""
    return [value for value in record.values.values() if isinstance(value, str) and not _is_number(value)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rank(match: Match) -> tuple[int, float]:
    return -_WAYS.index(match.how), match.nearness


def _overlap(
    one: HeldOut, folded: Sequence[tuple[str, ...]], best: Mapping[str, tuple[Match, str, str]]
) -> SetOverlap:
    as_written: dict[str, str] = {}
    for keys, row in zip(folded, one.rows, strict=True):
        for key, text in zip(keys, row, strict=True):
            as_written.setdefault(key, text)
    as_written.pop("", None)
    findings = tuple(
        Finding(text, best[key][0].how, best[key][0].nearness, *best[key][1:])
        for key, text in as_written.items()
        if key in best
    )
    whole_rows = sum(any(keys) and all(key in best for key in keys if key) for keys in folded)
    return SetOverlap(one.name, one.split, len(as_written), len(folded), whole_rows, findings)


class Match(NamedTuple):
    """The number of a text, how it was found (`inside`: all its words in a row), and how near it is."""

    number: int
    how: How
    nearness: float


def fold(text: str) -> str:
    """Return a text without letter case, white space and Unicode variants."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class NearTexts:
    """Unique folded texts to search for; `nearness` is above 0.5 and at most 1."""

    def __init__(self, texts: Sequence[str], *, nearness: float = 0.9) -> None:
        self.nearness = nearness
        self._numbers = {text: number for number, text in enumerate(texts)}
        words = [_WORD.findall(text) for text in texts]
        counts = Counter(word for own in words for word in _number_repeats(own))
        # Rarer words have lower ranks.
        rarest = sorted(counts, key=lambda word: (counts[word], word))
        self._rank = {word: rank for rank, word in enumerate(rarest)}
        self._words = [[self._rank[word] for word in own] for own in words]
        self._by_rare_word: defaultdict[int, list[int]] = defaultdict(list)
        self._by_beginning: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, own in enumerate(words):
            ranks = sorted(self._rank[word] for word in _number_repeats(own))
            for rank in ranks[: self._rare(len(ranks))]:
                self._by_rare_word[rank].append(number)
            if len(own) >= INSIDE_WORDS:
                self._by_beginning[tuple(self._words[number][:INSIDE_WORDS])].append(number)

    def find(self, text: str) -> Iterator[Match]:
        """Yield what a text of the stream repeats."""
        folded = fold(text)
        same = self._numbers.get(folded)
        if same is not None:
            yield Match(same, "exact", 1.0)
        words = _WORD.findall(folded)
        ranks = [self._rank.get(word, -1) for word in words]  # -1 is not the rank of any word
        inside = {number for number in self._inside(ranks) if number != same}
        yield from (Match(number, "inside", 1.0) for number in sorted(inside))
        for number, nearness in self._near(words, ranks):
            if number != same and number not in inside:
                yield Match(number, "near", nearness)

    def _inside(self, ranks: list[int]) -> Iterator[int]:
        for start in range(len(ranks) - INSIDE_WORDS + 1):
            for number in self._by_beginning.get(tuple(ranks[start : start + INSIDE_WORDS]), ()):
                words = self._words[number]
                if len(words) < len(ranks) and ranks[start : start + len(words)] == words:
                    yield number

    def _near(self, words: list[str], ranks: list[int]) -> Iterator[tuple[int, float]]:
        from rapidfuzz.distance import LCSseq

        numbered = sorted(self._rank.get(word, -1) for word in _number_repeats(words))
        size = len(numbered)
        rare = numbered[: self._rare(size)]
        for number in dict.fromkeys(other for rank in rare for other in self._by_rare_word.get(rank, ())):
            other = self._words[number]
            if self._shared(size) <= len(other) and self._shared(len(other)) <= size:
                # A count, since rapidfuzz rounds a cutoff that is a share up and loses what equals it.
                both = size + len(other)
                needed = math.ceil(self.nearness * both / 2 - _ROUNDING)
                if common := LCSseq.similarity(ranks, other, score_cutoff=needed):
                    yield number, 2 * common / both

    def _shared(self, size: int) -> int:
        """Return how many words a text must share with any near one, which is also the shortest such text."""
        return math.ceil(self.nearness * size / (2 - self.nearness) - _ROUNDING)

    def _rare(self, size: int) -> int:
        return size - self._shared(size) + 1 if size else 0


def _number_repeats(words: Sequence[str]) -> list[str]:
    """Return the words, with a number after the second, third, ... of each."""
    if len({*words}) == len(words):
        return list(words)
    seen: Counter[str] = Counter()
    numbered = []
    for word in words:
        numbered.append(f"{word} {seen[word]}" if seen[word] else word)
        seen[word] += 1
    return numbered
