"""Labelled pairs of texts: paraphrases, their graph and splits without leaks; triples of NLI pairs.

Texts that differ in letter case or white space only are the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class PairCounts:
    """Numbers of the pairs that cleaning kept, and of those that it dropped, by reason.

    `contradictory` pairs have both labels and `repeated` ones came before, in either order of their texts.
    `implied` pairs are kept: they are labelled 0 although chains of paraphrases join them.
    """

    rows: int
    kept: int
    blank: int
    identical: int
    contradictory: int
    repeated: int
    implied: int

    def __str__(self) -> str:
        return (
            f"kept {self.kept:,} of {self.rows:,} pairs; skipped {self.blank:,} with a blank text, "
            f"{self.identical:,} with the same text twice, {self.contradictory:,} with both labels and "
            f"{self.repeated:,} duplicates. {self.implied:,} of the kept pairs are labelled 0 although other "
            "pairs imply that they are paraphrases"
        )


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

    Args:
        source: A set of the catalogue, such as `cs224n-quora`, `quora` or `qqp`; or what `read_rows` takes.
        columns: The two text columns of such a source; `sentence1` and `sentence2` by default.
        label: Its column of 1 (paraphrase) and 0.
        split: Split of a catalogue's set.
        data_dir: The data folder; `SENTEMB_DATA` by default.

    Example:
        >>> data = load_pairs("labelled-pairs.csv")
        >>> len(data.texts)
        371
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


def clean_pairs(data: LabelledTexts) -> tuple[LabelledTexts, PairCounts]:
    """Drop the pairs that a contrastive loss cannot learn from; return the others and the counts.

    A pair with both labels is dropped; of a pair that occurs twice with one label, the first row is kept.

    Raises:
        InputError: These are not pairs of two classes, or none is left.

    Example:
        >>> data, counts = clean_pairs(load_pairs("labelled-pairs.csv"))
        >>> counts.kept
        371
    """
    keys = [tuple(sorted(key)) for key in _require_two_classes(data).text_keys()]
    labels: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for key, label in zip(keys, data.labels.tolist(), strict=True):
        labels[key].add(label)
    counts = Counter(blank=0, identical=0, contradictory=0, repeated=0)
    kept: dict[tuple[str, ...], int] = {}
    for row, key in enumerate(keys):
        if not all(key):
            counts["blank"] += 1
        elif key[0] == key[1]:
            counts["identical"] += 1
        elif len(labels[key]) > 1:
            counts["contradictory"] += 1
        elif kept.setdefault(key, row) != row:
            counts["repeated"] += 1
    if not kept:
        message = f"{data.name} {data.split}: all {len(data):,} pairs were skipped"
        raise InputError(message, "check the columns and the labels")
    cleaned = data.select(list(kept.values()))
    first, second = paraphrase_components(cleaned).T
    implied = int(((cleaned.labels == 0) & (first == second)).sum())
    return cleaned, PairCounts(rows=len(data), kept=len(kept), implied=implied, **counts)


def paraphrase_components(data: LabelledTexts) -> npt.NDArray[np.int64]:
    """Return the components of the graph whose edges are the paraphrases, (n, 2) for both texts of each row.

    Raises:
        InputError: These are not pairs of two classes.

    Example:
        >>> components = paraphrase_components(load_pairs("labelled-pairs.csv"))
    """
    return _components(data, edges=data.labels == 1)


def split_pairs(data: LabelledTexts, *, seed: int, dev: float = 0.1, test: float = 0.1) -> PairSplit:
    """Split pairs by shares so that no text is in two parts, nor a paraphrase of it.

    Rows that share a text, directly or through others, stay together, whatever their labels. Such groups are
    drawn at random into the test part until it is full, then into the dev part; a group that would make a
    part too large is skipped.

    Raises:
        InputError: The shares leave a part empty, or these are not pairs of two classes.

    Example:
        >>> split = split_pairs(load_pairs("labelled-pairs.csv"), seed=1)
        >>> len(split.train) > len(split.test)
        True
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
    """A row of supervised contrastive training: premise, entailed hypothesis, contradicting hypothesis.

    Example:
        >>> Triple("a cat sat", "a cat was sitting", "a dog ran").negative
        'a dog ran'
    """

    anchor: str
    positive: str
    negative: str


@dataclass(frozen=True)
class TripleCounts:
    """Numbers of the rows that were read, of their triples, and of the other rows, by reason.

    `other_labels` are rows by label, such as neutral ones; `contradictory` those whose premise and hypothesis
    have both labels; `unused` contradictions of a premise with triples that none of them drew.
    """

    rows: int
    triples: int
    other_labels: Mapping[str, int]
    blank: int
    repeated: int
    contradictory: int
    no_contradiction: int
    no_entailment: int
    unused: int

    def __str__(self) -> str:
        others = ", ".join(f"{count:,} {label!r}" for label, count in sorted(self.other_labels.items()))
        return (
            f"{self.triples:,} triples from {self.rows:,} rows; skipped: {others or 'no rows'} with other "
            f"labels, {self.blank:,} blank, {self.repeated:,} duplicates, {self.contradictory:,} with both "
            f"labels, {self.no_contradiction:,} entailments without a contradiction, {self.no_entailment:,} "
            f"contradictions without an entailment, {self.unused:,} contradictions that were not drawn"
        )


def read_triples(
    source: AnyPath,
    *,
    columns: Sequence[str] = NLI_COLUMNS,
    only: Mapping[str, str] | None = None,
    seed: int = 0,
    data_dir: DataDir = None,
) -> tuple[list[Triple], TripleCounts]:
    """Make triples of labelled pairs, in the order of the rows of their premises, and count skipped rows.

    Each entailed hypothesis makes a triple with one of the contradicting hypotheses of its premise, drawn at
    random, as in SimCSE (section 4).

    Args:
        source: As for `read_rows`.
        columns: Premise, hypothesis and label; SNLI and MNLI have `sentence1`, `sentence2`, `gold_label`.
            Labels are `entailment` and `contradiction`, or the hub's 0 and 2; all others are skipped.
        only: Column to value: read these rows only, such as `{"split": "train"}`.
        seed: Seed of the draw.
        data_dir: As for `read_rows`.

    Raises:
        InputError: The source, a column or a row is missing or broken, or there is no triple.

    Example:
        >>> triples, counts = read_triples("nli.csv")
        >>> triples[0].negative
        'The cat ran away.'
    """
    if isinstance(columns, str) or len(columns) != 3:
        message = f"columns {columns!r} are not three columns"
        raise InputError(message, "name the columns of premise, hypothesis and label")
    premise, hypothesis, label = columns
    # Sets of the catalogue number their classes in different orders.
    names = get(str(source)).labels if kind_of(source) == "entry" else ()
    counts, others = Counter(rows=0, blank=0, repeated=0), Counter[str]()
    pairs: dict[tuple[str, str], tuple[str, str, set[bool]]] = {}
    for row in read_rows(source, columns=[*dict.fromkeys([*columns, *(only or {})])], data_dir=data_dir):
        if any(str(row.values[name]) != value for name, value in (only or {}).items()):
            continue
        counts["rows"] += 1
        found = str(names[row.values[label]] if names else row.values[label]).strip()
        if found not in _ENTAILED:
            others[found] += 1
            continue
        both = (text_key(row.text(premise)), text_key(row.text(hypothesis)))
        if not all(both):
            counts["blank"] += 1
            continue
        entailed = pairs.setdefault(both, (row.text(premise), row.text(hypothesis), set()))[2]
        counts["repeated"] += _ENTAILED[found] in entailed
        entailed.add(_ENTAILED[found])
    # The hypotheses of each premise that are entailed, and those that contradict it.
    by_premise: dict[str, tuple[str, list[str], list[str]]] = {}
    for (key, _), (text, other, entailed) in pairs.items():
        if len(entailed) == 1:
            _, positives, negatives = by_premise.setdefault(key, (text, [], []))
            (positives if True in entailed else negatives).append(other)
    triples = list(_draw(by_premise, np.random.default_rng(seed)))
    drawable = sum(len(negatives) for _, positives, negatives in by_premise.values() if positives)
    described = TripleCounts(
        triples=len(triples),
        other_labels=others,
        contradictory=sum(2 for _, _, entailed in pairs.values() if len(entailed) > 1),
        no_contradiction=sum(
            len(positives) for _, positives, negatives in by_premise.values() if not negatives
        ),
        no_entailment=sum(len(negatives) for _, positives, negatives in by_premise.values() if not positives),
        unused=drawable - len({(triple.anchor, triple.negative) for triple in triples}),
        **counts,
    )
    if not triples:
        raise InputError(f"{source} does not yield a triple: {described}", "check the columns and the labels")
    return triples, described


def _draw(
    premises: Mapping[str, tuple[str, list[str], list[str]]], rng: np.random.Generator
) -> Iterator[Triple]:
    for premise, positives, negatives in premises.values():
        # No contradiction is drawn twice while there are enough, so that few are unused.
        order: list[int] = []
        for positive in positives if negatives else ():
            order = order or rng.permutation(len(negatives)).tolist()
            yield Triple(premise, positive, negatives[order.pop()])
