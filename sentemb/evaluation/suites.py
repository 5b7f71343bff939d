"""Registry of evaluation suites.

A suite is an entry of `SUITES`, its metadata, and the module that the entry names: its function
`load(suite, options)` reads the data sets and says how encoders are scored on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sentemb.data.locate import MissingDataError
from sentemb.data.sts import STS_SETS
from sentemb.errors import InputError
from sentemb.evaluation.measures import Protocol

if TYPE_CHECKING:
    from sentemb.evaluation.schema import Record

Measure = Literal["spearman", "pearson"]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Suite:
    """Data sets that are evaluated together."""

    name: str  # in records and their files
    sets: tuple[str, ...]  # of its average; of the STS suites also those evaluated by default
    protocol: Protocol = "all"  # of the headline
    measure: str = "accuracy"  # the metric of the headline
    scale: float = 100.0  # the stored value that tables show as 100: 1 where scores are fractions
    rounding: int | None = None  # decimals that stored scores are rounded to; None where they are exact
    presets: bool = False  # the protocol of a record is a preset: those of different ones do not compare
    module: str = ""  # that loads it; empty for records that other commands make


STS = Suite("sts", STS_SETS, "all", "spearman", module="sentemb.evaluation.sts")
"""The papers' seven English sets."""

# The mean of the seven tracks is the task's own primary score; Pearson is what SemEval and SG-BERT's tables 2
# and 3 report. SemEval-2014 weighs the two parts of its Spanish set by their sizes, which `wmean` does; a set
# in one part has the same score under all protocols.
_TRACKS = ("ar-ar", "ar-en", "es-es", "es-en", "es-en-wmt", "en-en", "tr-en")
MULTILINGUAL = Suite(
    "multilingual",
    tuple(f"sts17-{track}" for track in _TRACKS),
    "wmean",
    "pearson",
    module="sentemb.evaluation.sts",
)
"""The tracks of SemEval-2017 task 1, in their order; other sets of the catalogue can be added."""

GEOMETRY = Suite("geometry", (), measure="uniformity", module="sentemb.evaluation.geometry")

# SentEval rounds accuracies to two decimals; over folds it takes their mean.
TRANSFER = Suite(
    "transfer",
    ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"),
    rounding=2,
    presets=True,
    module="sentemb.evaluation.transfer.evaluate",
)
"""The seven tasks of SentEval that the papers average."""

RETRIEVAL = Suite(
    "retrieval",
    ("scifact", "cisi", "cacm", "tldr", "qnli-dev", "xquad-r/en"),
    measure="ndcg@10",
    presets=True,
    module="sentemb.evaluation.retrieval.evaluate",
)
"""Six English sets of different kinds: claims, keywords, abstracts, commands, questions."""

LAYERS = Suite("layers", (), measure="spearman")
CLASSIFICATION = Suite("classification", (), scale=1.0)
MULTITASK = Suite("multitask", ("sentiment", "paraphrase", "similarity"), measure="overall", scale=1.0)

SUITES = {
    suite.name: suite
    for suite in (STS, MULTILINGUAL, GEOMETRY, TRANSFER, RETRIEVAL, LAYERS, CLASSIFICATION, MULTITASK)
}
"""All suites, in the order of evaluation: the quick ones first."""


def get_suite(name: str) -> Suite:
    """Look a suite up."""
    if name not in SUITES:
        raise InputError(f"unknown suite {name!r}", f"choose one of {', '.join(SUITES)}")
    return SUITES[name]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options with which suites are loaded and evaluated."""

    data_dir: str | Path | None = None  # folder of data; `SENTEMB_DATA` by default
    check_rows: bool = True  # refuse a set whose number of rows differs from the catalogue's
    preset: str = "simcse-fast"  # of the classifiers of transfer tasks
    tasks: Sequence[str] | None = None  # transfer tasks, or your own files; the papers' seven by default
    seeds: Sequence[int] = (1111,)  # of the classifiers, a record each; SentEval's example has 1111
    pairs: str = "stsb"  # the scored pairs of geometry: a set or a file
    split: str = "dev"  # their split
    sets: Sequence[str] | None = None  # retrieval sets or folders; by default the suite's available ones
    judged: str | None = None  # split of the qrels; `test` by default, or the only one
    exclude_same_ids: bool = False  # exclude the document with the query's own id
    runs: Path | None = None  # folder for results of retrieval as TREC runs
    progress: bool = False  # show a progress bar where a suite encodes by itself


@dataclass(frozen=True, kw_only=True)
class LoadedSuite:
    """A suite with its data. An encoder has one record of it, to which data sets can be added."""

    name: str
    protocol: str
    checksums: Mapping[str, str]  # of every data set, in the order of evaluation
    texts: Mapping[str, Sequence[str]]  # of every data set, repeats included
    # evaluates an encoder on some of the data sets: records that share none, and a line on each
    evaluate: Callable[[Any, Sequence[str]], Iterator[tuple[Record, str]]]
    # of a model by its name: part of the record's name
    seed: Callable[[str], int | None] = lambda model: None
    label: str = ""  # name in messages and results, where it is not that of the suite

    @property
    def title(self) -> str:
        """Name in messages and results."""
        return self.label or self.name


@dataclass(frozen=True)
class Loaded:
    """Suites with their data."""

    suites: tuple[LoadedSuite, ...]  # those that have data
    missing: tuple[MissingDataError, ...] = ()  # why each other data set is skipped
    optional: bool = False  # the missing sets were not requested by name


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
