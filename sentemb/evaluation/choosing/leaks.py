"""Which of one's own texts are in known test sets: there, published scores and this ranking say too much."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sentemb.data.catalogue import expand, get
from sentemb.data.contamination import GROUPS, INSIDE_WORDS, NearTexts, fold, load_held_out
from sentemb.data.files import names_a_file
from sentemb.data.locate import MissingDataError, resolve_data_dir
from sentemb.data.retrieval import load_retrieval
from sentemb.data.sentences import sentences_of, word_spans
from sentemb.evaluation.suites import RETRIEVAL

SETS = ("sts", "retrieval")
"""The sets that are looked into by default, as far as they are here."""
_GROUPS = {**GROUPS, "retrieval": RETRIEVAL.sets}
_EXAMPLES = 3


@dataclass(frozen=True)
class Leak:
    """Texts of one's own that a known set has too.

    Attributes:
        name: The set.
        texts: How many of one's sentences, lines and queries it has: the same, nearly, or inside longer ones.
        examples: Some of them.
    """

    name: str
    texts: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class LeakReport:
    """What was looked for, where, and what was found.

    Attributes:
        texts: How many texts of one's own were looked for.
        checked: The sets that were looked into.
        missing: The sets that are not here.
        leaks: What was found, the most first.
    """

    texts: int
    checked: tuple[str, ...]
    missing: tuple[str, ...]
    leaks: tuple[Leak, ...]

    def sentence(self) -> str:
        """The report in a line."""
        if not self.checked:
            return "whether your texts are in known test sets was not checked: the sets are not here"
        rest = f"; not here, and so not looked into: {_counted(self.missing)}" if self.missing else ""
        if not self.leaks:
            where = _counted(self.checked)
            return f"none of {self.texts:,} of your sentences and queries is in {where}{rest}"
        found = ", ".join(f"{leak.name} ({leak.texts:,})" for leak in self.leaks)
        return (
            f"of {self.texts:,} of your sentences and queries some are in known test sets: {found}; "
            f"models may have been trained on these, and published scores on them are no news{rest}"
        )


def find_leaks(
    texts: Iterable[str],
    sets: Sequence[str] = SETS,
    *,
    nearness: float = 0.9,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LeakReport:
    """Look for your texts in known test sets.

    Args:
        texts: Documents and queries; their sentences of six words and more are looked for.
        sets: Names of the catalogue, files, `sts`, `transfer` and `retrieval`; those that are not here are
            left out.
        nearness: Texts are near from this share of common words in the same order.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        progress: Takes the stage and how many of how many sets are done.

    Returns:
        The report.

    Raises:
        InputError: There is no such set, or it is broken.

    Example:
        >>> report = find_leaks(["A man is playing a large flute."], ["stsb"])  # doctest: +SKIP
        >>> print(report.sentence())  # doctest: +SKIP
    """
    names = known_sets(sets)
    own = list(dict.fromkeys(fold(text) for whole in texts for text in _parts(whole)))
    here = resolve_data_dir(data_dir) is not None
    index = NearTexts(own, nearness=nearness)
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
        found = Counter(match.number for text in dict.fromkeys(known) for match in index.find(text))
        if found:
            examples = tuple(own[place] for place, _ in found.most_common(_EXAMPLES))
            leaks.append(Leak(name, len(found), examples))
        if progress is not None:
            progress("looking into known test sets", number, len(names))
    leaks.sort(key=lambda leak: -leak.texts)
    return LeakReport(len(own), tuple(checked), tuple(missing), tuple(leaks))


def known_sets(sets: Sequence[str]) -> list[str]:
    """The sets that some names mean; a name of none is refused."""
    names = list(dict.fromkeys(expand([one for name in sets for one in _GROUPS.get(name, (name,))])))
    for name in names:
        if not names_a_file(name):
            get(name)
    return names


def _counted(sets: Sequence[str]) -> str:
    """How many sets these are, in words."""
    return f"{len(sets)} known test set{'' if len(sets) == 1 else 's'}"


def _parts(text: str) -> Iterator[str]:
    """The sentences of a text that are long enough not to be found by chance."""
    for start, stop in sentences_of(text):
        if len(word_spans(text[start:stop])) >= INSIDE_WORDS:
            yield text[start:stop]


def _texts_of(name: str, data_dir: str | os.PathLike[str] | None) -> Iterator[str]:
    """All texts of a known set."""
    if not names_a_file(name) and get(name).kind == "retrieval":
        data = load_retrieval(name, data_dir=data_dir, check_rows=False)
        yield from data.documents
        yield from data.queries
        return
    for held_out in load_held_out([name], data_dir=data_dir, check_rows=False):
        for row in held_out.rows:
            yield from row
