"""Labelled pairs of natural language inference as triples: premise, entailed and contradicting hypothesis."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sentemb.data.catalogue import get
from sentemb.data.files import Row
from sentemb.data.labelled import text_key
from sentemb.data.sources import kind_of, read_rows
from sentemb.errors import InputError

TRIPLE_COLUMNS = ("sent0", "sent1", "hard_neg")
"""The columns of SimCSE's file of triples."""
NLI_COLUMNS = ("premise", "hypothesis", "label")
"""The columns of labelled pairs by default."""
# As SNLI and MNLI spell them, and as the numbers of the hub's copies.
_ENTAILED = {"entailment": True, "0": True, "contradiction": False, "2": False}


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
    """How many rows were read, how many triples they made, and why the other rows made none.

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
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] = NLI_COLUMNS,
    only: Mapping[str, str] | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> tuple[list[Triple], TripleCounts]:
    """Make triples of labelled pairs.

    Each entailed hypothesis makes a triple with one of the contradicting hypotheses of its premise, drawn at
    random, as in SimCSE (section 4).

    Args:
        source: As for `read_rows`.
        columns: Premise, hypothesis and label; SNLI and MNLI have `sentence1`, `sentence2`, `gold_label`.
            Labels are `entailment` and `contradiction`, or the hub's 0 and 2; all others are skipped.
        only: Column to value: read these rows only, such as `{"split": "train"}`.
        seed: Seed of the draw.
        data_dir: As for `read_rows`.

    Returns:
        The triples in the order of the rows of their premises, and the counts of what was skipped.

    Raises:
        InputError: The source, a column or a row is missing or broken, or there is no triple.

    Example:
        >>> triples, counts = read_triples("nli.csv")
        >>> triples[0].negative
        'The cat ran away.'
    """
    if isinstance(columns, str) or len(columns) != 3:
        raise InputError(
            f"columns {columns!r} are not three columns", "name the columns of premise, hypothesis and label"
        )
    wanted = dict.fromkeys([*columns, *(only or {})])
    records = read_rows(source, columns=list(wanted), data_dir=data_dir)
    if kind_of(source) == "entry" and (names := get(str(source)).labels):
        # Sets number their classes in different orders.
        label = columns[2]
        records = (row._replace(values={**row.values, label: names[row.values[label]]}) for row in records)
    chosen = (
        record for record in records if all(str(record.values[k]) == v for k, v in (only or {}).items())
    )
    triples, counts = make_triples(chosen, columns=columns, seed=seed)
    if not triples:
        raise InputError(f"{source} does not yield a triple: {counts}", "check the columns and the labels")
    return triples, counts


def make_triples(
    records: Iterable[Row], *, columns: Sequence[str] = NLI_COLUMNS, seed: int = 0
) -> tuple[list[Triple], TripleCounts]:
    """Make triples of rows; see `read_triples`."""
    labels, counts, other_labels = _read_labels(records, columns)
    premises: dict[str, _Hypotheses] = {}
    for premise, hypothesis, entailed in labels.values():
        if len(entailed) == 1:
            place = premises.setdefault(text_key(premise), _Hypotheses(premise, [], []))
            (place.entailed if True in entailed else place.contradicting).append(hypothesis)
    triples = list(_draw(premises.values(), np.random.default_rng(seed)))
    complete = [one for one in premises.values() if one.entailed and one.contradicting]
    used = {(triple.anchor, triple.negative) for triple in triples}
    return triples, TripleCounts(
        triples=len(triples),
        other_labels=other_labels,
        no_contradiction=sum(len(one.entailed) for one in premises.values() if not one.contradicting),
        no_entailment=sum(len(one.contradicting) for one in premises.values() if not one.entailed),
        unused=sum(len(one.contradicting) for one in complete) - len(used),
        **counts,
    )


class _Hypotheses(NamedTuple):
    """The hypotheses of a premise, in the order of their rows."""

    premise: str
    entailed: list[str]
    contradicting: list[str]


_Labels = dict[tuple[str, str], tuple[str, str, set[bool]]]


def _read_labels(
    records: Iterable[Row], columns: Sequence[str]
) -> tuple[_Labels, dict[str, int], dict[str, int]]:
    """Return whether each unique pair is entailed, and the counts of rows that make no new pair."""
    premise_column, hypothesis_column, label_column = columns
    found: _Labels = {}
    counts = Counter(rows=0, blank=0, repeated=0, contradictory=0)
    other_labels: Counter[str] = Counter()
    for record in records:
        counts["rows"] += 1
        label = str(record.values.get(label_column)).strip()
        if label not in _ENTAILED:
            other_labels[label] += 1
            continue
        premise, hypothesis = record.text(premise_column), record.text(hypothesis_column)
        key = (text_key(premise), text_key(hypothesis))
        if not all(key):
            counts["blank"] += 1
            continue
        _, _, entailed = found.setdefault(key, (premise, hypothesis, set()))
        counts["repeated"] += _ENTAILED[label] in entailed
        entailed.add(_ENTAILED[label])
    counts["contradictory"] = sum(2 for _, _, entailed in found.values() if len(entailed) > 1)
    return found, counts, other_labels


def _draw(premises: Iterable[_Hypotheses], rng: np.random.Generator) -> Iterable[Triple]:
    for one in premises:
        # No contradiction is drawn twice while there are enough, so that few are unused.
        order: list[int] = []
        for positive in one.entailed if one.contradicting else ():
            order = order or rng.permutation(len(one.contradicting)).tolist()
            yield Triple(one.premise, positive, one.contradicting[order.pop()])
