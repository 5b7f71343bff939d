"""The data sets that sentemb knows: where they are, what they hold, whom to cite."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from sentemb.errors import InputError

Kind = Literal["scored-pairs", "sentences", "triples"]
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One data set of the catalogue.

    Attributes:
        name: The name used on the command line and in records.
        kind: What a row is: two sentences and a score, one sentence, or anchor, positive and hard negative.
        description: One line.
        columns: Columns of a row in the order of their roles.
        licence: The terms as the source states them; no legal advice.
        senteval: The folder inside SentEval's `downstream` folder, None where SentEval has no such set.
        layouts: Paths inside the data folder, tried in this order after `senteval`.
        derived_from: The set whose local files this one is made of.
        rows: Expected rows by split; empty where they were never counted.
        parts: Expected rows of each part of the test split, in SentEval's order.
        hub_id: The repository on the hub.
        revision: The commit there, 40 hexadecimal digits.
        files: The file of each split in that repository.
        url: The paper or the home page.
        citation: BibTeX.
    """

    name: str
    kind: Kind
    description: str
    columns: tuple[str, ...]
    licence: str
    senteval: str | None = None
    layouts: tuple[str, ...] = ()
    derived_from: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    hub_id: str | None = None
    revision: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    citation: str | None = None

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return tuple(column for column in self.columns if column != "score")

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that the set has."""
        return tuple(split for split in SPLITS if split in self.rows or split in self.files)


@cache
def _all() -> dict[str, Entry]:
    text = (files("sentemb.data") / "catalogue.toml").read_text(encoding="utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


def _entry(name: str, table: dict[str, object]) -> Entry:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    if isinstance(citation := values.get("citation"), str):
        values["citation"] = citation.strip()
    return Entry(name=name, **values)  # type: ignore[arg-type]


def get(name: str) -> Entry:
    """Look a data set up.

    Args:
        name: Its name.

    Returns:
        The entry.

    Raises:
        InputError: No data set has that name.
    """
    known = _all()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        raise InputError(
            f"no data set is called {name!r}",
            f"did you mean {close[0]!r}?" if close else f"the catalogue has {', '.join(known)}",
        )
    return known[name]


def entries(kind: Kind | None = None) -> tuple[Entry, ...]:
    """All data sets, or those of one kind.

    Args:
        kind: The kind; all by default.

    Returns:
        The entries in the order of the catalogue.
    """
    return tuple(entry for entry in _all().values() if kind is None or entry.kind == kind)


def check_row_count(where: str, found: int, expected: int) -> None:
    """Refuse a copy of a data set that has more or fewer rows than it should.

    Truncated copies have produced published nonsense, so a difference is an error and not a warning.

    Args:
        where: The data set, split and path, for the message.
        found: Rows found.
        expected: Rows of the catalogue.

    Raises:
        InputError: The two differ.
    """
    if found != expected:
        difference = f"{expected - found:,} missing" if found < expected else f"{found - expected:,} too many"
        raise InputError(
            f"{where}: {found:,} of {expected:,} rows: {difference}",
            "get a complete copy, or allow the difference (check_rows=False, --allow-count-mismatch)",
        )
