"""What the runner asks of a suite: its data sets, their texts, and a record of some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sentemb.data.locate import MissingDataError
from sentemb.evaluation.schema import Record

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What suites are read and evaluated with.

    Attributes:
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        check_rows: Refuse a set whose number of rows differs from the catalogue's.
        preset: Of the classifiers of transfer tasks.
        tasks: The transfer tasks, or files of one's own; the papers' seven by default.
        seeds: Of the classifiers, a record each; SentEval's example has 1111.
        pairs: The scored pairs that geometry is measured on: a set's name or a file.
        split: Their split.
        sets: Retrieval sets, or folders of one's own; those of the suite that are there by default.
        judged: The split of their judgements; `test` by default, or what there is in its place.
        exclude_same_ids: Whether a query may not find the document of its own id.
        runs: Where retrieval writes what was found, as runs of TREC.
        progress: Show a progress bar where a suite encodes by itself.
    """

    data_dir: str | Path | None = None
    check_rows: bool = True
    preset: str = "simcse-fast"
    tasks: Sequence[str] | None = None
    seeds: Sequence[int] = (1111,)
    pairs: str = "stsb"
    split: str = "dev"
    sets: Sequence[str] | None = None
    judged: str | None = None
    exclude_same_ids: bool = False
    runs: Path | None = None
    progress: bool = False


def _no_seed(model: str) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True)
class RunnableSuite:
    """A suite whose data are read. An encoder has one record of it, to which data sets can be added."""

    name: str
    protocol: str
    checksums: Mapping[str, str]  # of every data set, in the order of evaluation
    texts: Mapping[str, Sequence[str]]  # of every data set, repeats included
    # evaluates on some data sets: records that share none, and a line on each
    evaluate: Callable[[Any, Sequence[str]], Iterator[tuple[Record, str]]]
    seed: Callable[[str], int | None] = _no_seed  # of a model: what is part of the record's name
    label: str  # what messages and results call it


@dataclass(frozen=True)
class Loaded:
    """Suites whose data are read."""

    suites: tuple[RunnableSuite, ...]  # those that there are data for
    missing: tuple[MissingDataError, ...] = ()  # why each other data set is skipped
    optional: bool = False  # nobody asked for what is missing by its name


def read_available(
    names: Iterable[str], load: Callable[[str], Value]
) -> tuple[dict[str, Value], tuple[MissingDataError, ...]]:
    """Read data sets one by one, and collect the errors of those that are missing."""
    found, missing = {}, []
    for name in names:
        try:
            found[name] = load(name)
        except MissingDataError as error:
            missing.append(error)
    return found, tuple(missing)
