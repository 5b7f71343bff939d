"""Which data sets are evaluated together, and which of their numbers is the headline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sentemb.data.sts import STS_SETS
from sentemb.errors import InputError
from sentemb.evaluation.measures import Protocol

Measure = Literal["spearman", "pearson"]


@dataclass(frozen=True)
class Suite:
    """Data sets that are evaluated together.

    Attributes:
        name: What records and their files call it.
        sets: The data sets of its average; of the STS suites also those evaluated by default.
        protocol: The protocol of the headline.
        measure: The metric of the headline.
        scale: What a perfect score is stored as: 100, or 1 where scores are fractions.
        rounding: Decimals that stored scores are rounded to; None where they are exact.

    Example:
        >>> Suite("mine", ("first.csv", "second.csv"), measure="spearman").sets
        ('first.csv', 'second.csv')
    """

    name: str
    sets: tuple[str, ...]
    protocol: Protocol = "all"
    measure: str = "accuracy"
    scale: float = 100.0
    rounding: int | None = None


STS = Suite("sts", STS_SETS, "all", "spearman")
"""The papers' seven English sets."""

# The mean of the seven tracks is the task's own primary score; Pearson is what SemEval and SG-BERT's tables 2
# and 3 report. SemEval-2014 weighs the two parts of its Spanish set by their sizes, which `wmean` does; a set
# in one part has the same score under all protocols.
MULTILINGUAL = Suite(
    "multilingual",
    (
        "sts17-ar-ar",
        "sts17-ar-en",
        "sts17-es-es",
        "sts17-es-en",
        "sts17-es-en-wmt",
        "sts17-en-en",
        "sts17-tr-en",
    ),
    "wmean",
    "pearson",
)
"""The tracks of SemEval-2017 task 1, in their order; other sets of the catalogue may stand beside them."""

# SentEval rounds accuracies to two decimals; over folds it takes their mean.
TRANSFER = Suite("transfer", ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"), rounding=2)
"""The seven tasks of SentEval that the papers average."""

GEOMETRY = Suite("geometry", (), measure="uniformity", scale=1.0)
LAYERS = Suite("layers", (), measure="spearman")
CLASSIFICATION = Suite("classification", (), scale=1.0)
MULTITASK = Suite("multitask", ("sentiment", "paraphrase", "similarity"), measure="overall", scale=1.0)
RETRIEVAL = Suite(
    "retrieval", ("scifact", "cisi", "cacm", "tldr", "qnli-dev", "xquad-r/en"), "all", "ndcg@10"
)
"""Six English sets of other kinds: claims, keywords, abstracts, commands, questions."""

SUITES = {
    suite.name: suite
    for suite in (STS, MULTILINGUAL, TRANSFER, GEOMETRY, LAYERS, CLASSIFICATION, MULTITASK, RETRIEVAL)
}


def get_suite(name: str, among: Sequence[str] = tuple(SUITES)) -> Suite:
    """Look a suite up.

    Args:
        name: Its name, such as `sts` or `multilingual`.
        among: The names to choose from; all by default.

    Returns:
        The suite.

    Raises:
        InputError: There is none of this name.

    Example:
        >>> get_suite("sts").sets[:2]
        ('sts12', 'sts13')
    """
    if name not in among:
        raise InputError(f"unknown suite {name!r}", f"choose one of {', '.join(among)}")
    return SUITES[name]
