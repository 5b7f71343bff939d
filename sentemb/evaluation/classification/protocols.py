"""The papers' experiments on labelled texts: which cells they have and what they report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentemb._files import write_text
from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Cell, Method, Point
from sentemb.evaluation.classification.draws import Rule
from sentemb.evaluation.classification.fairness import check_options, shared_settings
from sentemb.evaluation.classification.methods import joined, with_options
from sentemb.evaluation.classification.metrics import TASKS, Metric, Paper, headline_of, paper_of
from sentemb.evaluation.classification.records import CellRecord
from sentemb.evaluation.classification.summary import summarize
from sentemb.evaluation.classification.tables import (
    average_table,
    class_table,
    comparison_table,
    study_table,
)
from sentemb.evaluation.classification.verdicts import judge
from sentemb.evaluation.table import Table


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """An experiment.

    Attributes:
        name: What it is called, and its files of tables.
        title: What its table shows.
        points: What is done to the training sets, one after the other.
        rule: Where validation and test rows come from, see `ProtocolData`.
        seeds: One run each.
        best: Report so many runs, the best by validation; all by default.
        paper: Whose metrics it is judged by, and whose optimization all methods share; by default that of the
            rule, else the sets' own metrics and LaCon's optimization.
        options: Options of every method, over the shared ones.
        bases: The base of every method on some sets, such as those of another language.
        by_class: Report F1 of minority and majority too.
        average: Report the average over the points too.
    """

    name: str
    title: str
    points: tuple[Point, ...]
    rule: Rule | None = None
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    best: int | None = None
    paper: Paper | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    bases: Mapping[str, str] = field(default_factory=dict)
    by_class: bool = False
    average: bool = False

    def cells(self, methods: Sequence[Method], sets: Sequence[str]) -> list[Cell]:
        """The cells, a whole seed before the next, so that an interrupted study can be compared.

        Args:
            methods: The methods.
            sets: Names of labelled sets; a user's own is judged by accuracy.

        Returns:
            The cells, those of the same data side by side.

        Raises:
            InputError: There is no method, set, point or seed, there are fewer seeds than are to be reported,
                or a method has an option that the study decides.
        """
        if not methods or not sets or not self.points or not self.seeds:
            raise InputError("a study needs a method, a set, a seed and a point of its protocol")
        if self.best is not None and len(self.seeds) < self.best:
            raise InputError(f"{len(self.seeds)} seeds have no best {self.best}", "give more --seeds")
        if absent := [name for name in self.bases if name not in sets]:
            raise InputError(f"a base for {absent[0]}, which is no set of the study", "name it with --sets")
        for method in with_options(methods, self.options):
            check_options(method)
        paper = self.paper or paper_of(self.rule)
        shared = joined(shared_settings(paper), self.options)
        return [
            Cell(method, name, point, seed, _metric(name, paper))
            for seed in self.seeds
            for name in sets
            for point in self.points
            for method in _portable(with_options(methods, shared | _base(self.bases.get(name))))
        ]

    def tables(self, records: Sequence[CellRecord], *, baseline: str = "ce") -> list[Table]:
        """What the experiment reports.

        Args:
            records: Its records.
            baseline: The method that the others are compared with.

        Returns:
            The scores; the comparisons where there are any; the classes' scores where they are asked for.
        """
        summaries = summarize(records, best=self.best)
        verdicts = judge(summaries, baseline)
        if not records:
            raise InputError(f"there is no record of the experiment {self.name}")
        tables = [study_table(summaries, verdicts, baseline=baseline, title=self.title, best=self.best)]
        if verdicts:
            tables.append(comparison_table(summaries, verdicts, baseline))
        if self.by_class:
            tables.append(class_table(summaries))
        if self.average:
            tables.append(average_table(summaries))
        return tables

    def own(self, records: Iterable[CellRecord]) -> list[CellRecord]:
        """Those of its records.

        Args:
            records: Records of any experiments.

        Returns:
            Its own, in the order in which they were made.
        """
        found = [one for one in records if _EXPERIMENTS[one.cell.point.protocol] == self.name]
        return sorted(found, key=lambda one: one.date)


def full(train_sizes: Sequence[int] = ()) -> Protocol:
    """All training rows, or stratified subsets that are the same for every method and seed."""
    return Protocol(
        name="full",
        title="Classification" if train_sizes else "Classification, all training rows",
        points=tuple(Point("train", size) for size in train_sizes) or (Point("full"),),
    )


def few_shot_scl(shots: Sequence[int] = (20, 100, 1000)) -> Protocol:
    """So many examples in all, ten training sets, the best three by validation (SCL, table 4)."""
    return Protocol(
        name="few-shot",
        title="Few-shot classification, by the number of examples",
        points=tuple(Point("shots", count) for count in shots),
        rule="scl",
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
    )


def few_shot_lacon(shots: Sequence[int] = (20,)) -> Protocol:
    """So many examples of each class and as many to validate on, 20 epochs (LaCon, section 4.1)."""
    return Protocol(
        name="few-shot-per-class",
        title="Few-shot classification, by the number of examples of each class",
        points=tuple(Point("per-class", count) for count in shots),
        rule="lacon",
        seeds=tuple(range(10)),
        paper="lacon",
        options={"epochs": 20},
    )


def transfer(shots: Sequence[int] = (20,)) -> Protocol:
    """A model tuned on one task, tuned on few examples of a related one (SCL, section 5.4).

    The base of each method is the model that it was tuned to on the first task.
    """
    return Protocol(
        name="transfer",
        title="Transfer to a related task",
        points=tuple(Point("transfer", count) for count in shots),
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
    )


def imbalance(ratios: Sequence[int] = (1, 3, 5, 10, 20)) -> Protocol:
    """32 rows of the rarest class and rho times as many of the others (LaCon, figure 3 and table 5)."""
    return Protocol(
        name="imbalance",
        title="Classification, by the imbalance of the training set",
        points=tuple(Point("rho", ratio) for ratio in ratios),
        rule="lacon",
        paper="lacon",
        by_class=True,
    )


def noise(temperatures: Sequence[float] = (0, 0.3, 0.5, 0.7, 0.9)) -> Protocol:
    """100 examples with three noisy copies each, ten sets, the best three (SCL, table 5)."""
    return Protocol(
        name="noise",
        title="Classification, by the temperature of noisy copies",
        points=tuple(Point("noise", temperature) for temperature in temperatures),
        rule="scl",
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
        average=True,
    )


def growing_classes(counts: Sequence[int] = tuple(range(2, 15))) -> Protocol:
    """The first so many classes of a set, 1,000 training rows each (LaCon, figure 6)."""
    return Protocol(
        name="classes",
        title="Classification, by the number of classes",
        points=tuple(Point("classes", count) for count in counts),
        seeds=tuple(range(10)),
        paper="lacon",
    )


PROTOCOLS: Mapping[str, Callable[..., Protocol]] = {
    "full": full,
    "few-shot": few_shot_scl,
    "few-shot-per-class": few_shot_lacon,
    "transfer": transfer,
    "imbalance": imbalance,
    "noise": noise,
    "classes": growing_classes,
}
"""The experiments by name; each takes other values than the paper's."""
_EXPERIMENTS = {
    "full": "full",
    "train": "full",
    "shots": "few-shot",
    "per-class": "few-shot-per-class",
    "transfer": "transfer",
    "rho": "imbalance",
    "noise": "noise",
    "classes": "classes",
}


def write_tables(
    protocol: Protocol, records: Sequence[CellRecord], folder: Path, *, baseline: str = "ce"
) -> Path:
    """Make the tables of an experiment anew, of all its records."""
    tables = protocol.tables(protocol.own(records), baseline=baseline)
    path = folder / f"{protocol.name}.md"
    write_text(path, "\n".join(table.markdown() for table in tables))
    write_text(path.with_suffix(".tex"), "\n".join(table.latex() for table in tables))
    return path


def experiments_of(records: Iterable[CellRecord]) -> list[str]:
    """The experiments that records are of."""
    found = {_EXPERIMENTS[one.cell.point.protocol] for one in records}
    return [name for name in PROTOCOLS if name in found]


def _metric(data: str, paper: Paper | None) -> Metric:
    name = data.partition("/")[0]
    return headline_of(name, paper) if name in TASKS else "accuracy"


def _portable(methods: Iterable[Method]) -> list[Method]:
    """The methods, with paths of bases relative to this folder: a record names no machine's folders."""
    return [
        replace(one, options={**one.options, "base": os.path.relpath(one.options["base"])})
        if Path(str(one.options["base"])).is_absolute()
        else one
        for one in methods
    ]


def _base(name: str | None) -> dict[str, str]:
    return {} if name is None else {"base": name}
