"""Which STS sets are judged together, and which of their numbers is the headline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentemb.data.sts import STS_SETS
from sentemb.errors import InputError
from sentemb.evaluation.scoring import Protocol

Measure = Literal["spearman", "pearson"]


@dataclass(frozen=True)
class StsSuite:
    """Sets that are judged together.

    Attributes:
        name: What records and their files call it.
        sets: The sets of its average, which are those judged by default.
        protocol: The protocol of the headline.
        measure: The correlation of the headline.
    """

    name: str
    sets: tuple[str, ...]
    protocol: Protocol
    measure: Measure


STS = StsSuite("sts", STS_SETS, "all", "spearman")
"""The papers' seven English sets."""

# The mean of the seven tracks is the task's own primary score; Pearson is what SemEval and SG-BERT's tables 2
# and 3 report. SemEval-2014 weighs the two parts of its Spanish set by their sizes, which `wmean` does; a set
# in one part has the same score under all protocols.
MULTILINGUAL = StsSuite(
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

_SUITES = {suite.name: suite for suite in (STS, MULTILINGUAL)}


def get_suite(name: str) -> StsSuite:
    """Look a suite up.

    Args:
        name: `sts` or `multilingual`.

    Returns:
        The suite.

    Raises:
        InputError: There is none of this name.
    """
    if name not in _SUITES:
        raise InputError(f"no suite is called {name!r}", f"choose one of {', '.join(_SUITES)}")
    return _SUITES[name]
