"""The papers' experiments on labelled texts: which cells they have and what they report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentemb._files import write_text
from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Cell, Method, Point
from sentemb.evaluation.classification.methods import with_options
from sentemb.evaluation.classification.metrics import TASKS, Paper, headline_of
from sentemb.evaluation.classification.records import CellRecord
from sentemb.evaluation.classification.sets import Rule
from sentemb.evaluation.classification.summary import summarize
from sentemb.evaluation.classification.tables import class_table, comparison_table, judge, study_table
from sentemb.evaluation.table import Table


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """An experiment.

    Attributes:
        title: What its table shows.
        points: What is done to the training sets, one after the other.
        rule: Where validation and test rows come from, see `ProtocolData`.
        seeds: One run each.
        best: Report so many runs, the best by validation; all by default.
        paper: Whose metrics it is judged by; the sets' own by default.
        options: Options of every method.
        by_class: Report F1 of minority and majority too.
    """

    title: str
    points: tuple[Point, ...]
    rule: Rule | None = None
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    best: int | None = None
    paper: Paper | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    by_class: bool = False

    def cells(self, methods: Sequence[Method], sets: Sequence[str]) -> list[Cell]:
        """The cells, a whole seed before the next, so that an interrupted study can be compared.

        Args:
            methods: The methods.
            sets: Names of labelled sets; a user's own is judged by accuracy.

        Returns:
            The cells, those of the same data side by side.

        Raises:
            InputError: There is no method, set or point; or fewer seeds than are to be reported.
        """
        if not methods or not sets or not self.points:
            raise InputError("a study needs a method, a set and a point of its protocol")
        if self.best is not None and len(self.seeds) < self.best:
            raise InputError(f"{len(self.seeds)} seeds have no best {self.best}", "give more --seeds")
        return [
            Cell(method, name, point, seed, headline_of(name, self.paper) if name in TASKS else "accuracy")
            for seed in self.seeds
            for name in sets
            for point in self.points
            for method in with_options(methods, self.options)
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
        tables = [study_table(summaries, verdicts, baseline=baseline, title=self.title, best=self.best)]
        if verdicts:
            tables.append(comparison_table(summaries, verdicts, baseline))
        if self.by_class:
            tables.append(class_table(summaries))
        return tables


def full(train_sizes: Sequence[int] = ()) -> Protocol:
    """All training rows, or stratified subsets that are the same for every method and seed.

    Args:
        train_sizes: Rows of each subset; all rows by default.

    Returns:
        The experiment.
    """
    return Protocol(
        title="Classification" if train_sizes else "Classification, all training rows",
        points=tuple(Point("train", size) for size in train_sizes) or (Point("full"),),
    )


def few_shot_scl(shots: Sequence[int] = (20, 100, 1000)) -> Protocol:
    """So many examples in all, ten training sets, the best three by validation (SCL, table 4).

    Args:
        shots: The paper's by default.

    Returns:
        The experiment.
    """
    return Protocol(
        title="Few-shot classification, by the number of examples",
        points=tuple(Point("shots", count) for count in shots),
        rule="scl",
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
    )


def few_shot_lacon(shots: Sequence[int] = (20,)) -> Protocol:
    """So many examples of each class and as many to validate on, 20 epochs (LaCon, section 4.1).

    Args:
        shots: 20 by default, as in table 4; figure 2 has 10, 20, 50 and 100.

    Returns:
        The experiment.
    """
    return Protocol(
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

    Args:
        shots: Examples of each class, 20 by default.

    Returns:
        The experiment.
    """
    return Protocol(
        title="Transfer to a related task",
        points=tuple(Point("per-class", count) for count in shots),
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
    )


def imbalance(ratios: Sequence[int] = (1, 3, 5, 10, 20)) -> Protocol:
    """32 rows of the rarest class and rho times as many of the others (LaCon, figure 3 and table 5).

    Args:
        ratios: Values of rho, the paper's by default.

    Returns:
        The experiment.
    """
    return Protocol(
        title="Classification, by the imbalance of the training set",
        points=tuple(Point("rho", ratio) for ratio in ratios),
        rule="lacon",
        paper="lacon",
        by_class=True,
    )


def noise(temperatures: Sequence[float] = (0, 0.3, 0.5, 0.7, 0.9)) -> Protocol:
    """100 examples with three noisy copies each, ten sets, the best three (SCL, table 5).

    Args:
        temperatures: Of the back-translations, the paper's by default; 0 is the examples alone.

    Returns:
        The experiment.
    """
    return Protocol(
        title="Classification, by the temperature of noisy copies",
        points=tuple(Point("noise", temperature) for temperature in temperatures),
        rule="scl",
        seeds=tuple(range(10)),
        best=3,
        paper="scl",
    )


def growing_classes(counts: Sequence[int] = tuple(range(2, 15))) -> Protocol:
    """The first so many classes of a set, 1,000 training rows each (LaCon, figure 6).

    Args:
        counts: 2 to 14 by default, as of DBpedia.

    Returns:
        The experiment.
    """
    return Protocol(
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


def write_tables(tables: Sequence[Table], folder: Path) -> None:
    """Write tables beside the records that they were made from.

    Args:
        tables: The tables.
        folder: The folder; gets `tables.md` and `tables.tex`.
    """
    write_text(folder / "tables.md", "\n".join(table.markdown() for table in tables))
    write_text(folder / "tables.tex", "\n".join(table.latex() for table in tables))
