"""Pairs of texts: labelled paraphrases and splits without leaks, NLI triples, positive pairs and batches.

Texts that differ in letter case or white space only are the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.columns import LABEL, load_columns
from sentemb.data.files import AnyPath, list_columns, refuse_bare_string
from sentemb.data.labelled import LabelledTexts, load_labelled, text_key
from sentemb.data.locate import DataDir
from sentemb.data.sampling import Rows
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

PAIR_COLUMNS = ("sentence1", "sentence2")
"""Text columns of pairs by default."""
NAMES = ("not_duplicate", "duplicate")
TRIPLE_COLUMNS = ("sent0", "sent1", "hard_neg")
"""The columns of SimCSE's file of triples."""
NLI_COLUMNS = ("premise", "hypothesis", "label")
"""The columns of labelled pairs of inference by default."""
# As SNLI and MNLI spell them, and as the numbers of the hub's copies.
_ENTAILED = {"entailment": True, "0": True, "contradiction": False, "2": False}
ANCHORS = ("anchor", "query", "question", "sentence1", "sent0")
POSITIVES = ("positive", "passage", "answer", "context", "document", "sentence2", "sent1")
"""Usual names of the columns of questions, and of passages, in any letter case."""
_NEGATIVE = re.compile(r"(hard_)?neg(ative)?(_?\d+)?")  # negative, negative_1, hard_neg, ...
_LABELS = ("label", "labels", "score", "scores", "similarity")
_NAME_THEM = "name the columns with --columns QUESTION,PASSAGE[,NEGATIVE]"


class RowCounts(NamedTuple):
    """Numbers of the rows that were read, of the pairs or triples, and of skipped rows, by reason."""

    rows: int
    kept: int
    skipped: Mapping[str, int]
    noun: str
    implied: int = 0  # of the pairs that are kept: labelled 0 although chains of paraphrases join them

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.items() if count)
        text = f"{self.kept:,} {self.noun} from {self.rows:,} rows; skipped: {reasons or 'none'}"
        implied = f"{self.implied:,} of the pairs are labelled 0 although other pairs imply that they are"
        return f"{text}. {implied} paraphrases" if self.implied else text


class PairSplit(NamedTuple):
    """Rows to train on, for selection and to report, in ascending order; no two parts share a text."""

    train: Rows
    dev: Rows
    test: Rows


def load_pairs(
    source: AnyPath,
    *,
    columns: Sequence[str] | None = None,
    label: str = LABEL,
    split: str = "train",
    data_dir: DataDir = None,
) -> LabelledTexts:
    """Load a split of labelled pairs, or what `read_rows` takes: two texts, and 1 (paraphrase) or 0."""
    if kind_of(source) == "entry":
        return _require_two_classes(load_labelled(str(source), split=split, data_dir=data_dir))
    columns = columns or PAIR_COLUMNS
    if isinstance(columns, str) or len(columns) != 2:
        message = f"text columns {columns!r} are not two columns"
        raise InputError(message, "name the two text columns of the pairs")
    rows, name = load_columns(source, columns, label=label), without_secrets(str(source))
    labels = np.array(rows[LABEL])
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if len(wrong):
        message = f"{name}: row {wrong[0] + 1} has the {label} {labels[wrong[0]]:g}"
        raise InputError(message, "label paraphrases 1 and all other pairs 0")
    texts, pairs = (list(rows[column]) for column in columns)
    return LabelledTexts(name, split, texts, pairs, labels.astype(np.int64), NAMES, source=name)


def clean_pairs(data: LabelledTexts) -> tuple[LabelledTexts, RowCounts]:
    """Drop the pairs that a contrastive loss cannot learn from; return the others and the counts."""
    keys = [tuple(sorted(key)) for key in _require_two_classes(data).text_keys()]
    labels: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for key, label in zip(keys, data.labels.tolist(), strict=True):
        labels[key].add(label)
    skipped: Counter[str] = Counter()
    kept: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(keys):
        if not all(key):
            skipped["blank"] += 1
        elif key[0] == key[1]:
            skipped["with the same text twice"] += 1
        elif len(labels[key]) > 1:
            skipped["with both labels"] += 1
        elif kept.setdefault(key, row) != row:
            skipped["duplicates"] += 1
    if not kept:
        message = f"{data.name} {data.split}: all {len(data):,} pairs were skipped"
        raise InputError(message, "check the columns and the labels")
    cleaned = data.select(list(kept.values()))
    first, second = paraphrase_components(cleaned).T
    implied = int(((cleaned.labels == 0) & (first == second)).sum())
    return cleaned, RowCounts(len(data), len(kept), skipped, "pairs", implied)


def paraphrase_components(data: LabelledTexts) -> npt.NDArray[np.int64]:
    """Return the components of the graph of paraphrases, (n, 2) for both texts of each row."""
    return _components(data, edges=data.labels == 1)


def split_pairs(data: LabelledTexts, *, seed: int, dev: float = 0.1, test: float = 0.1) -> PairSplit:
    """Split pairs by shares so that no text is in two parts, nor a paraphrase of it.

    Rows that share a text, directly or through others, stay together. Such groups are drawn at random into
    the test part, then into the dev part; a group that would make a part too large is skipped.
    """
    shares = f"dev={dev:g} and test={test:g}"
    if not (dev > 0 and test > 0 and dev + test < 1):
        raise InputError(f"{shares} leave a split empty", "choose shares above 0 that sum to less than 1")
    groups = _components(data, edges=np.ones(len(data), dtype=bool))[:, 0]  # (n,)
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(sizes))
    part_of = np.zeros(len(sizes), dtype=np.int64)
    for part, share in ((2, test), (1, dev)):
        room = round(share * len(data))
        for group in order.tolist():
            if part_of[group] == 0 and sizes[group] <= room:
                part_of[group] = part
                room -= sizes[group]
    parts = PairSplit(*(np.flatnonzero(part_of[groups] == part) for part in range(3)))
    for name, rows in parts._asdict().items():
        if not len(rows):
            message = f"{shares} of {len(data):,} pairs leave the {name} split empty"
            raise InputError(message, "choose larger shares, or use more pairs")
    return parts


def _components(data: LabelledTexts, *, edges: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    keys = _require_two_classes(data).text_keys()
    numbers: dict[str, int] = {}
    texts = np.array([[numbers.setdefault(text, len(numbers)) for text in key] for key in keys])  # (n, 2)
    first, second = texts[edges].T
    graph = coo_array((np.ones(len(first), dtype=np.int32), (first, second)), shape=(len(numbers),) * 2)
    found = connected_components(graph, directed=False)[1].astype(np.int64)
    return np.asarray(found[texts])


def _require_two_classes(data: LabelledTexts) -> LabelledTexts:
    if data.pairs is None or len(data.label_names) != 2:
        raise InputError(f"{data.name} does not have pairs of both classes", "use pairs labelled 1 and 0")
    return data


class Triple(NamedTuple):
    """A row of supervised contrastive training: premise, entailed hypothesis, contradicting hypothesis."""

    anchor: str
    positive: str
    negative: str


def read_triples(
    source: AnyPath,
    *,
    columns: Sequence[str] = NLI_COLUMNS,
    only: Mapping[str, str] | None = None,
    seed: int = 0,
    data_dir: DataDir = None,
) -> tuple[list[Triple], RowCounts]:
    """Make triples of labelled pairs, in the order of the rows of their premises, and count skipped rows.

    Each entailed hypothesis makes a triple with one of the contradicting hypotheses of its premise, drawn
    at random, as in SimCSE (section 4). Rows that differ from `only` in a column are skipped.
    """
    if isinstance(columns, str) or len(columns) != 3:
        message = f"columns {columns!r} are not three columns"
        raise InputError(message, "name the columns of premise, hypothesis and label")
    premise, hypothesis, label = columns
    # Sets of the catalogue number their classes in different orders.
    names = get(str(source)).labels if kind_of(source) == "entry" else ()
    skipped: Counter[str] = Counter()
    pairs: dict[tuple[str, str], tuple[str, str, set[bool]]] = {}
    count = 0
    for row in read_rows(source, columns=[*dict.fromkeys([*columns, *(only or {})])], data_dir=data_dir):
        if any(str(row.values[name]) != value for name, value in (only or {}).items()):
            continue
        count += 1
        found = str(names[row.values[label]] if names else row.values[label]).strip()
        if found not in _ENTAILED:
            skipped[f"labelled {found!r}"] += 1
            continue
        both = (row.text(premise), row.text(hypothesis))
        if not all(map(str.strip, both)):
            skipped["blank"] += 1
        else:
            key = (text_key(both[0]), text_key(both[1]))
            entailed = pairs.setdefault(key, (*both, set()))[2]
            skipped["duplicates"] += _ENTAILED[found] in entailed
            entailed.add(_ENTAILED[found])
    triples = _draw_triples(pairs, skipped, np.random.default_rng(seed))
    counts = RowCounts(count, len(triples), skipped, "triples")
    if not triples:
        raise InputError(f"{source} does not yield a triple: {counts}", "check the columns and the labels")
    return triples, counts


def _draw_triples(
    pairs: Mapping[tuple[str, str], tuple[str, str, set[bool]]],
    skipped: Counter[str],
    rng: np.random.Generator,
) -> list[Triple]:
    # The hypotheses of each premise that are entailed, and those that contradict it.
    by_premise: dict[str, tuple[str, list[str], list[str]]] = {}
    for (own, _), (text, other, entailed) in pairs.items():
        if len(entailed) == 1:
            _, positives, negatives = by_premise.setdefault(own, (text, [], []))
            (positives if True in entailed else negatives).append(other)
        else:
            skipped["with both labels"] += 2
    triples: list[Triple] = []
    for text, positives, negatives in by_premise.values():
        # No contradiction is drawn twice while there are enough, so that few are unused.
        order: list[int] = []
        for positive in positives if negatives else ():
            order = order or rng.permutation(len(negatives)).tolist()
            triples.append(Triple(text, positive, negatives[order.pop()]))
        skipped["entailments without a contradiction"] += 0 if negatives else len(positives)
        unused = max(0, len(negatives) - len(positives))
        skipped[f"contradictions {'that were not drawn' if positives else 'without an entailment'}"] += unused
    return triples


class PositivePairs(NamedTuple):
    """Unique pairs with any hard negatives, what the source calls their columns, and dropped duplicates."""

    rows: Dataset  # of the columns `anchor`, `positive`, and `negative`, `negative_2`, ...
    names: tuple[str, ...]
    repeated: int


def load_positive_pairs(
    source: AnyPath, columns: Sequence[str] | None = None, *, data_dir: DataDir = None
) -> PositivePairs:
    """Load pairs of a question and a passage, and any hard negatives, from what `read_rows` takes."""
    names = pair_columns(source, columns, data_dir=data_dir)
    negatives = ("negative", *(f"negative_{place}" for place in range(2, len(names) - 1)))
    roles = ("anchor", "positive", *negatives)[: len(names)]
    rows = load_columns(source, names, data_dir=data_dir)
    rows = rows.rename_columns(dict(zip(names, roles, strict=True)))
    unique: dict[tuple[str, ...], int] = {}
    for place, texts in enumerate(zip(*(rows[role] for role in roles), strict=True)):
        unique.setdefault(tuple(map(text_key, texts)), place)
    repeated = len(rows) - len(unique)
    return PositivePairs(rows.select(list(unique.values())) if repeated else rows, names, repeated)


def pair_columns(
    source: AnyPath, columns: Sequence[str] | None = None, *, data_dir: DataDir = None
) -> tuple[str, ...]:
    """Find the columns of the question, the passage and any hard negatives, or check those that are named."""
    refuse_bare_string(columns)
    if columns is not None and len(columns) < 2:
        named = f"--columns {','.join(columns)} names {len(columns)} column"
        raise InputError(f"{named}, but pairs need two", _NAME_THEM)
    if columns is not None:
        return tuple(columns)
    name = without_secrets(str(source))
    if kind_of(source) == "entry":
        return find_pair_columns(get(str(source)).text_columns, name)
    first = next(read_rows(source, data_dir=data_dir), None)
    if first is None:
        raise InputError(f"{name} does not contain rows")
    return find_pair_columns(list(first.values), name)


def negative_column(names: Sequence[str]) -> str:
    """Return what the column of hard negatives is called next to columns of pairs."""
    usual = "hard_neg" if "sent0" in names else "negative"
    return f"hard_{usual}" if usual in names else usual


def find_pair_columns(present: Sequence[str], where: str) -> tuple[str, ...]:
    """Find the columns of the question, the passage and hard negatives by usual names, in any letter case."""
    by_name = {column.strip().lower(): column for column in present}
    pair = []
    for usual, role in ((ANCHORS, "question"), (POSITIVES, "passage")):
        found = [by_name[name] for name in usual if name in by_name]
        if len(found) > 1:
            raise InputError(f"{where}: the {role} could be {' or '.join(map(repr, found))}", _NAME_THEM)
        if not found:
            wanted = f"a column for the {role}, such as {' or '.join(map(repr, usual[:3]))}"
            columns = list_columns(by_name.values())
            raise InputError(f"{where} does not have {wanted}; its columns are {columns}", _NAME_THEM)
        pair += found
    label = next((by_name[name] for name in _LABELS if name in by_name), None)
    if label is not None:
        message = f"{where} has a column {label!r}, so some of its rows may not be positive pairs"
        raise InputError(message, f"keep only the positive pairs, and {_NAME_THEM}")
    return (*pair, *(column for name, column in by_name.items() if _NEGATIVE.fullmatch(name)))


def draw_pairs(
    source: AnyPath,
    columns: Sequence[str] | None = None,
    *,
    count: int,
    seed: int = 0,
    data_dir: DataDir = None,
) -> tuple[list[str], list[str]]:
    """Draw unique pairs of sentences from a larger source, as training text of another domain."""
    rows = load_columns(source, columns, data_dir=data_dir)
    names = rows.column_names[:2]
    if len(names) < 2:
        raise InputError(f"{source} has only one text column, {names[0]}", "use data with two text columns")
    unique = list(dict.fromkeys(zip(*(rows[name] for name in names), strict=True)))
    if not 0 < count <= len(unique):
        known = f"the {len(unique):,} unique pairs of {source}"
        raise InputError(f"cannot draw {count:,} pairs from {known}", "draw fewer")
    drawn = np.sort(np.random.default_rng(seed).choice(len(unique), size=count, replace=False))
    return [unique[row][0] for row in drawn], [unique[row][1] for row in drawn]


class PairBatches:
    """Batches of pairs without known positives among the negatives: a sampler for `torch`'s data loader.

    Two rows are kept apart if one has a text that the other has too, or that is another positive of the
    other's anchor. Hard negatives may repeat each other. Texts that differ in letter case and white space
    only are equal. The order depends on the seed and the epoch. A row goes into the first batch that has room
    and takes it; one that no batch takes, as when its positive is in too many rows, waits for another epoch.
    """

    drop_last = False  # read by wrappers of data loaders

    def __init__(
        self,
        anchors: Sequence[str],
        positives: Sequence[str],
        negatives: Sequence[Sequence[str]],
        batch_size: int,
        *,
        seed: int = 0,
    ) -> None:
        numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
        pairs = [
            (numbers[text_key(a)], numbers[text_key(p)]) for a, p in zip(anchors, positives, strict=True)
        ]
        positives_of: defaultdict[int, set[int]] = defaultdict(set)
        for anchor, positive in pairs:
            positives_of[anchor].add(positive)
        self._positives = [positive for _, positive in pairs]
        self._own = [{*pair, *positives_of[pair[0]]} for pair in pairs]
        self._negatives = [{numbers[text_key(text)] for text in row} for row in negatives]
        self.batch_size, self.seed, self.epoch = batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, from 0, as trainers do at its start."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._own) // max(1, min(self.batch_size, len(set(self._positives)))))

    def __iter__(self) -> Iterator[list[int]]:
        rows_of: list[list[int]] = [[] for _ in range(len(self))]
        # Of each batch the anchors with all of their positives, and the hard negatives.
        texts: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in rows_of]
        first_open = 0
        untried: dict[int, int] = {}  # by positive: all batches before this one are full or have it
        for row in np.random.default_rng((self.seed, self.epoch)).permutation(len(self._own)).tolist():
            own, negatives, positive = self._own[row], self._negatives[row], self._positives[row]
            for place in range(max(first_open, untried.get(positive, 0)), len(rows_of)):
                others, hard = texts[place]
                is_apart = own.isdisjoint(others) and own.isdisjoint(hard) and negatives.isdisjoint(others)
                if len(rows_of[place]) < self.batch_size and is_apart:
                    rows_of[place].append(row)
                    others.update(own)
                    hard.update(negatives)
                    untried[positive] = place + 1
                    break
            while first_open < len(rows_of) and len(rows_of[first_open]) == self.batch_size:
                first_open += 1
        # The last ones are the smallest, and should not always be.
        for place in np.random.default_rng((self.seed, self.epoch, 1)).permutation(len(rows_of)).tolist():
            yield rows_of[place]


def pair_batches(dataset: Dataset, batch_size: int, drop_last: bool, seed: int = 0, **_: Any) -> PairBatches:
    """Make the sampler of anchors, positives and hard negatives as sentence-transformers' trainer does."""
    anchors, positives, *rest = (list(dataset[name]) for name in dataset.column_names)
    negatives = list(zip(*rest, strict=True)) if rest else [()] * len(anchors)
    return PairBatches(anchors, positives, negatives, batch_size, seed=seed)
