"""The suites, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sentemb.data.locate import MissingDataError
from sentemb.errors import InputError
from sentemb.evaluation.everything.pairs import GeometrySuite, PairsSuite
from sentemb.evaluation.everything.suite import Loaded, Options, Suite
from sentemb.evaluation.everything.tasks import TransferSuite
from sentemb.evaluation.suites import MULTILINGUAL, STS

SUITES: Mapping[str, Callable[[Options], Loaded]] = {
    # MTEB's SICK-R has pairs of its own, whose sentences are encoded anyway but for a few.
    "sts": lambda options: PairsSuite.load(STS, options, beside=["sickr-mteb"]),
    "multilingual": lambda options: PairsSuite.load(MULTILINGUAL, options),
    "geometry": GeometrySuite.load,
    "transfer": TransferSuite.load,
}
"""What reads each suite, in the order of judging: the quick ones first."""


def load_suites(names: Sequence[str], options: Options, *, allow_missing: bool = False) -> Loaded:
    """Read the data of suites.

    Args:
        names: Names of `SUITES`.
        options: What they are read and judged with.
        allow_missing: Leave sets out that are not there.

    Returns:
        The suites that there are data for, and why the other sets are missing.

    Raises:
        InputError: A name is unknown or named twice, a set is damaged, none is there, or some are not there
            and `allow_missing` is not set; names all of them.
    """
    for name in names:
        if name not in SUITES:
            raise InputError(f"no suite is called {name!r}", f"choose among {', '.join(SUITES)}")
        if list(names).count(name) > 1:
            raise InputError(f"suite {name} is named twice", "name each suite once")
    loaded = [read(options) for name, read in SUITES.items() if name in names]
    missing = tuple(error for one in loaded for error in one.missing)
    suites = tuple(suite for one in loaded for suite in one.suites)
    if not suites or (missing and not allow_missing):
        raise _nothing_or_missing(suites, missing)
    return Loaded(suites, missing)


def _nothing_or_missing(suites: Sequence[Suite], missing: Sequence[MissingDataError]) -> InputError:
    if not missing:
        return InputError("no list of suites was given", f"choose among {', '.join(SUITES)}")
    others = [name for name in missing_names(missing) if name != missing[0].name]
    message = f"{missing[0].message}{', nor ' if others else ''}{', '.join(others)}"
    if not suites:
        return InputError(message, "name the folder of the data, or other --suites")
    return InputError(message, "add --allow-missing (allow_missing=True) to judge by the rest")


def missing_names(missing: Sequence[MissingDataError]) -> list[str]:
    """The sets that are not there."""
    return list(dict.fromkeys(error.name for error in missing))
