"""The user's texts in known test sets, on which published scores and this ranking say too much."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sentemb.data.catalogue import expand, get
from sentemb.data.contamination import GROUPS, INSIDE_WORDS, KnownTexts, load_held_out, words_key
from sentemb.data.files import names_a_file
from sentemb.data.locate import MissingDataError, resolve_data_dir
from sentemb.data.retrieval import load_retrieval
from sentemb.data.words import sentences_of, word_spans
from sentemb.evaluation.suites import RETRIEVAL

SETS = ("sts", "retrieval")
"""The sets that are searched by default, as far as they are available."""
_GROUPS = {**GROUPS, "retrieval": RETRIEVAL.sets}
_EXAMPLES = 3


@dataclass(frozen=True)
class Leak:
    """The user's texts that are in a known set."""

    name: str  # the set
    texts: int  # how many of the user's sentences, lines and queries it has, also inside longer ones
    examples: tuple[str, ...]


@dataclass(frozen=True)
class LeakReport:
    """The result of a search for the user's texts in known sets."""

    texts: int  # number of the user's texts
    checked: tuple[str, ...]  # sets
    missing: tuple[str, ...]  # sets that are not available
    leaks: tuple[Leak, ...]  # the most first

    def sentence(self) -> str:
        """Return the report in a line."""
        if not self.checked:
            return "whether your texts are in known test sets was not checked: the sets are not here"
        rest = f"; not here, and so not looked into: {_counted(self.missing)}" if self.missing else ""
        if not self.leaks:
            where = _counted(self.checked)
            return f"none of {self.texts:,} of your sentences and queries is in {where}{rest}"
        found = ", ".join(f"{leak.name} ({leak.texts:,})" for leak in self.leaks)
        return (
            f"of {self.texts:,} of your sentences and queries some are in known test sets: {found}; "
            f"models may have been trained on these, and published scores on them may be too high{rest}"
        )


def find_leaks(
    texts: Iterable[str],
    sets: Sequence[str] = SETS,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LeakReport:
    """Find your texts in known test sets.

    Args:
        texts: Documents and queries; their sentences of six words and more are searched for.
        sets: Names of the catalogue, files, `sts`, `transfer` and `retrieval`; those that are not
            available are skipped.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        progress: Called with the stage and how many of how many sets are done.

    Returns:
        The report.

    Raises:
        InputError: A set does not exist or cannot be read.

    Example:
        >>> report = find_leaks(["A man is playing a large flute."], ["stsb"])  # doctest: +SKIP
        >>> print(report.sentence())  # doctest: +SKIP
    """
    names = known_sets(sets)
    own: dict[str, str] = {}
    for whole in texts:
        for text in (whole[start:stop] for start, stop in sentences_of(whole)):
            if len(word_spans(text)) >= INSIDE_WORDS:  # else it may be found by chance
                own.setdefault(words_key(text), text)
    here = resolve_data_dir(data_dir) is not None
    index = KnownTexts(own)
    checked: list[str] = []
    missing: list[str] = []
    leaks: list[Leak] = []
    for number, name in enumerate(names, start=1):
        try:
            # Where there is no data folder a set would come from the hub.
            known = list(_texts_of(name, data_dir)) if here or names_a_file(name) else None
        except MissingDataError:
            known = None
        if known is None:
            missing.append(name)
            continue
        checked.append(name)
        found = Counter(key for text in dict.fromkeys(known) for key, _ in index.find(text))
        if found:
            examples = tuple(own[key] for key, _ in found.most_common(_EXAMPLES))
            leaks.append(Leak(name, len(found), examples))
        if progress is not None:
            progress("looking into known test sets", number, len(names))
    leaks.sort(key=lambda leak: -leak.texts)
    return LeakReport(len(own), tuple(checked), tuple(missing), tuple(leaks))


def known_sets(sets: Sequence[str]) -> list[str]:
    """Return the sets that names mean; raise InputError for an unknown name."""
    names = list(dict.fromkeys(expand([one for name in sets for one in _GROUPS.get(name, (name,))])))
    for name in names:
        if not names_a_file(name):
            get(name)
    return names


def _counted(sets: Sequence[str]) -> str:
    return f"{len(sets)} known test set{'' if len(sets) == 1 else 's'}"


def _texts_of(name: str, data_dir: str | os.PathLike[str] | None) -> Iterator[str]:
    """Yield all texts of a known set."""
    if not names_a_file(name) and get(name).kind == "retrieval":
        data = load_retrieval(name, data_dir=data_dir, check_rows=False)
        yield from data.documents
        yield from data.queries
        return
    for held_out in load_held_out([name], data_dir=data_dir, check_rows=False):
        for row in held_out.rows:
            yield from row
