"""Texts and pairs of texts with labels: GLUE, SentEval and its probing tasks, CLUE, and users' own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sentemb._files import shareable
from sentemb.data.catalogue import Entry, check_row_count, get_split
from sentemb.data.files import (
    AnyPath,
    Row,
    name_and_split,
    names_a_file,
    read_file,
    read_lines,
    source_at,
    usual_columns,
)
from sentemb.data.locate import VARIABLE, DataDir, Split, open_split, resolve_data_dir
from sentemb.errors import InputError

Labels = npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""Class numbers (int64) or scores (float64)."""
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("sent1", "sent2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
)
"""Usual names of the columns of pairs, in the order in which they are tried."""
PROBE_SPLITS = {"tr": ("train", 100_000), "va": ("dev", 10_000), "te": ("test", 10_000)}
"""The splits of SentEval's probing tasks as their files call them, and the rows of each, of every task."""
_PROBE_FOLDERS = ("senteval/probing", "SentEval/data/probing", "data/probing", "probing", ".")


def text_key(text: str) -> str:
    """Return a key that is equal for texts that differ in letter case and white space only."""
    return " ".join(text.split()).casefold()


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts of one split, or pairs of texts, with their labels.

    Attributes:
        name: The set.
        split: The split.
        texts: The texts, or the first of each pair; empty ones count.
        pairs: The second of each pair.
        labels: (n,) class numbers from 0, int64, or finite scores, float64.
        label_names: The classes in the order of their numbers, also of empty ones; none if labels are scores.
        source: Where the rows were read, for records.

    Raises:
        InputError: The lengths differ, there is no row, or a label is not a class or not finite.

    Example:
        >>> names = ("negative", "positive")
        >>> data = LabelledTexts("own", "train", ["good", "bad"], None, np.array([1, 0]), names)
        >>> data.label_names[data.labels[0]]
        'positive'
    """

    name: str
    split: str
    texts: list[str]
    pairs: list[str] | None
    labels: Labels
    label_names: tuple[str, ...]
    source: str = field(default="", kw_only=True)

    def __len__(self) -> int:
        return len(self.texts)

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels, dtype=np.int64 if self.label_names else np.float64)
        object.__setattr__(self, "labels", labels)
        size, seconds = len(self.texts), len(self.texts if self.pairs is None else self.pairs)
        if seconds != size or labels.shape != (size,):
            found = f"{size} texts, {seconds} second texts and labels of shape {labels.shape}"
            raise InputError(f"{self.name}: got {found}")
        if not size:
            raise InputError(f"{self.name} {self.split} does not contain labelled texts")
        fits = (labels >= 0) & (labels < len(self.label_names)) if self.label_names else np.isfinite(labels)
        if not fits.all():
            row = int(np.argmin(fits))
            raise InputError(f"{self.name} {self.split}: the label of row {row} is {labels[row]}")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Return the text, or the two texts, of each row."""
        return zip(*([self.texts, self.pairs] if self.pairs else [self.texts]), strict=True)

    def text_keys(self) -> list[tuple[str, ...]]:
        """Return keys that are equal for rows whose texts differ in letter case and white space only."""
        return [tuple(map(text_key, row)) for row in self.rows()]

    @property
    def class_counts(self) -> dict[str, int]:
        """The number of rows of each class, also of empty ones; nothing if labels are scores."""
        counts = np.bincount(self.labels.astype(np.int64), minlength=len(self.label_names))
        return dict(zip(self.label_names, counts.tolist(), strict=True)) if self.label_names else {}

    def describe(self) -> dict[str, Any]:
        """Return the set, split, source, rows, classes and checksum, for the record of a run."""
        content = json.dumps([self.texts, self.pairs, self.labels.tolist()], ensure_ascii=False)
        return {
            "set": self.name,
            "split": self.split,
            "source": shareable(self.source),
            "rows": len(self),
            "classes": self.class_counts,
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
        }

    def select(
        self, rows: npt.NDArray[np.integer] | Sequence[int], *, split: str | None = None
    ) -> LabelledTexts:
        """Return some of the rows, at least one, by their indices, in the given order, with all classes."""
        chosen = np.asarray(rows, dtype=np.int64)
        texts = [self.texts[row] for row in chosen]
        pairs = None if self.pairs is None else [self.pairs[row] for row in chosen]
        return replace(self, split=split or self.split, texts=texts, pairs=pairs, labels=self.labels[chosen])

    def first_classes(self, count: int) -> LabelledTexts:
        """Return the rows of the first `count` classes, with these classes only (LaCon, section 4.5)."""
        # The paper does not say which of DBpedia's it takes; of the first, a step contains the previous one.
        if not 0 < count <= len(self.label_names):
            raise InputError(f"{self.name} has {len(self.label_names)} classes, not {count}")
        chosen = self.select(np.flatnonzero(self.labels < count))
        return replace(chosen, label_names=self.label_names[:count])


def load_labelled(
    name: AnyPath, *, split: str | None = None, data_dir: DataDir = None, check_rows: bool = True
) -> LabelledTexts:
    """Load one split of a labelled set of the catalogue, or a file, in the order of the file.

    Args:
        name: A set, such as `sst2`, `trec` or `tnews-few`; or a file as for `read_labelled`.
        split: A split of the set, `train` by default; MR, CR, SUBJ and MPQA have no other. What results call
            a file's rows; by default what its name mentions, as `my-dev.csv`, else `all`.
        data_dir: Folder with the set as published or on the hub; `SENTEMB_DATA` by default, or the hub.
        check_rows: Raise InputError if the row count differs from the catalogue's.

    Raises:
        InputError: The set, the split or the file does not exist, is broken, has another row count, or does
            not have labels, such as the test splits of GLUE.

    Example:
        >>> data = load_labelled("few.csv")
        >>> data.label_names[:2]
        ('abbreviation', 'description')
    """
    if names_a_file(name):
        return read_labelled(name, split=split)
    split = split or "train"
    entry = get_split(str(name), "labelled", split)
    if split in entry.unlabelled:
        others = ", ".join(other for other in entry.splits if other not in entry.unlabelled)
        raise InputError(f"the labels of {name} {split} are not published", f"use one of {others}")
    data = labelled_of(entry, split, open_split(entry, split, data_dir))
    check_row_count(f"{name} {split} ({data.source})", len(data), entry.rows.get(split), strict=check_rows)
    return data


def labelled_of(entry: Entry, split: str, opened: Split) -> LabelledTexts:
    """Read one split of a labelled set, whatever its row count."""
    rows = list(opened.rows)
    label = entry.columns[-1]
    if entry.labels:
        values = ((row.location, row.values[label]) for row in rows)
        spellings = opened.published.spellings if opened.published else ()
        labels: Labels = _number_labels(values, entry.labels, spellings, entry.name)
    else:
        labels = np.array([row.number(label) for row in rows])
    texts = _texts(entry.text_columns, rows)
    return LabelledTexts(entry.name, split, *texts, labels, entry.labels, source=opened.source)


def _texts(columns: Sequence[str], rows: Iterable[Row]) -> tuple[list[str], list[str] | None]:
    """Return the texts of the first column, and of the second if there is one."""
    every = [[row.text(column) for column in columns] for row in rows]
    return [texts[0] for texts in every], [texts[1] for texts in every] if len(columns) > 1 else None


def read_labelled(
    path: AnyPath,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    label_names: Sequence[str] | None = None,
    split: str | None = None,
) -> LabelledTexts:
    """Read a table of labelled texts, in the order of the file.

    Args:
        path: A `.csv`, `.tsv`, `.jsonl` or `.parquet` file, also compressed.
        text: Column of the texts, or of the first of each pair; by default `text`, `sentence`, or the first
            of one of `PAIR_COLUMNS`, whose second is then `pair`.
        pair: Column of the second of each pair.
        label: Column of the labels: strings, whole numbers, true or false; `label` or `class` by default.
        label_names: The classes in the order of their numbers, such as those of the training split for its
            dev split. By default the labels of this file, sorted: as numbers if all are whole numbers.
        split: What results call the split; by default what the file's name mentions, else `all`.

    Raises:
        InputError: The file, a column, a text or a label is missing, broken or not one of `label_names`; with
            the line.

    Example:
        >>> data = read_labelled("few.csv", text="text", label="label")
        >>> data.texts[0]
        'What does it stand for item 0 ?'
    """
    source = source_at(path)
    if text is None:
        text, *second = usual_columns(source, (("text",), ("sentence",), *PAIR_COLUMNS))
        pair = pair or next(iter(second), None)
    label = label or usual_columns(source, (("label",), ("labels",), ("class",), ("gold_label",)))[0]
    columns = [text] if pair is None else [text, pair]
    rows = list(read_file(source, columns=[*columns, label]))
    name, split = name_and_split(source, split=split)
    values = [(f"{row.location}: column {label!r}", row.values[label]) for row in rows]
    found = label_names or {_spelling(value, where) for where, value in values}
    # Every split numbers them alike.
    numeric = all(one.removeprefix("-").isdecimal() for one in found)
    names = tuple(label_names or sorted(found, key=lambda one: (int(one) if numeric else 0, one)))
    labels = _number_labels(values, names, names, name)
    return LabelledTexts(name, split, *_texts(columns, rows), labels, names, source=str(source))


def _number_labels(
    rows: Iterable[tuple[str, Any]], names: Sequence[str], spellings: Sequence[str] | None, where: str
) -> npt.NDArray[np.int64]:
    """Return the class numbers of located labels, each a name or one of `spellings` (numbers by default)."""
    numbers = {written: number for number, written in enumerate(spellings or map(str, range(len(names))))}
    # Names take precedence over spellings: the user's own classes may be called 1 and 0.
    numbers |= {name: number for number, name in enumerate(names)}
    found = []
    for location, value in rows:
        label = _spelling(value, location)
        if label not in numbers:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise InputError(f"{location}: {label!r} is not a label of {where}", f"its labels are {shown}")
        found.append(numbers[label])
    return np.array(found, dtype=np.int64)


def _spelling(value: Any, location: str) -> str:
    """Write a label as a string: `1` for 1, 1.0 and "1", `true` for True."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (str, int)) and str(value).strip():
        return str(value).lower() if isinstance(value, bool) else str(value).strip()
    if value is None or isinstance(value, str) or (isinstance(value, float) and math.isnan(value)):
        raise InputError(f"{location}: the label is missing", "remove the row, or fill in the label")
    raise InputError(f"{location}: {value!r} is not a class", "use words or whole numbers as labels")


def score_classes(scores: npt.NDArray[np.floating], *, decimals: int | None = 1) -> npt.NDArray[np.int64]:
    """Turn scores into classes as SupCL-Seq does for STS-B: rounded (footnote 3), or not, as in its code."""
    values = np.asarray(scores, dtype=np.float64)
    rounded = values if decimals is None else np.round(values, decimals)
    return np.unique(rounded, return_inverse=True)[1].astype(np.int64)


def read_probe(file: str, *, data_dir: DataDir = None, check_rows: bool = True) -> dict[str, LabelledTexts]:
    """Read a probing task of SentEval: lines of a split (`tr`, `va`, `te`), a label and a sentence."""
    folder = resolve_data_dir(data_dir)
    paths = [folder / place / file for place in _PROBE_FOLDERS] if folder else []
    path = next((path for path in paths if path.is_file()), None)
    hint = f"get github.com/facebookresearch/SentEval, and name its folder data with --data-dir or {VARIABLE}"
    if path is None:
        raise InputError(f"the probing file {file} is not in {folder or 'a data folder'}", hint)
    texts: dict[str, list[str]] = {split: [] for split in PROBE_SPLITS}
    labels: dict[str, list[tuple[str, str]]] = {split: [] for split in PROBE_SPLITS}
    for number, line in read_lines(path):
        split, *fields = line.rstrip().split("\t")
        if len(fields) < 2 or split not in PROBE_SPLITS:
            message = f"{path}, line {number}: expected tr, va or te, a label and a sentence, between tabs"
            raise InputError(message)
        texts[split].append(fields[-1])
        labels[split].append((f"{path}, line {number}", fields[0]))
    classes = tuple(sorted({label for _, label in labels["tr"]}))
    parts = {}
    for key, (split, rows) in PROBE_SPLITS.items():
        if not texts[key] or (check_rows and len(texts[key]) != rows):
            needed = f"{rows:,}" if check_rows else "some"
            raise InputError(f"{path}, {split} has {len(texts[key]):,} rows instead of {needed}", hint)
        numbers = _number_labels(labels[key], classes, classes, "the training rows")
        parts[split] = LabelledTexts(path.stem, split, texts[key], None, numbers, classes, source=str(path))
    return parts
