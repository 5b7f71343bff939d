"""Labelled pairs of texts: paraphrases, their graph and splits without leaks; triples of NLI pairs.

Texts that differ in letter case or white space only are the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sentemb._uris import without_secrets
from sentemb.data.catalogue import get
from sentemb.data.columns import LABEL, load_columns
from sentemb.data.labelled import LabelledTexts, load_labelled, text_key
from sentemb.data.lines import AnyPath
from sentemb.data.locate import DataDir
from sentemb.data.sampling import Rows
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

PAIR_COLUMNS = ("sentence1", "sentence2")
"""Text columns of pairs by default."""
NAMES = ("not_duplicate", "duplicate")
TRIPLE_COLUMNS = ("sent0", "sent1", "hard_neg")
"""The columns of SimCSE's file of triples."""
NLI_COLUMNS = ("premise", "hypothesis", "label")
"""The columns of labelled pairs of inference by default."""
# As SNLI and MNLI spell them, and as the numbers of the hub's copies.
_ENTAILED = {"entailment": True, "0": True, "contradiction": False, "2": False}


class RowCounts(NamedTuple):
    """Numbers of the rows that were read, of the pairs or triples, and of skipped rows, by reason.

    `implied` pairs are kept: they are labelled 0 although chains of paraphrases join them.
    """

    rows: int
    kept: int
    skipped: Mapping[str, int]
    noun: str
    implied: int = 0

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
    """Load labelled pairs without changing them; the second class is that of the paraphrases.

    The source is a set of the catalogue, such as `cs224n-quora`, `quora` or `qqp`, of which a split is
    read, or what `read_rows` takes, with two text columns and a label of 1 (paraphrase) and 0.
    """
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
    """Drop the pairs that a contrastive loss cannot learn from; return the others and the counts.

    A pair with both labels is dropped; of a pair that occurs twice with one label, the first row is kept.
    """
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

    Rows that share a text, directly or through others, stay together, whatever their labels. Such groups
    are drawn at random into the test part until it is full, then into the dev part; a group that would
    make a part too large is skipped.
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
    at random, as in SimCSE (section 4). Labels are `entailment` and `contradiction`, or 0 and 2; all
    others are skipped, as are rows that differ from `only` in a column.
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
