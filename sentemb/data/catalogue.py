"""The data sets that sentemb knows: where they are, what they contain, whom to cite."""

from __future__ import annotations

import difflib
import logging
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, StringConstraints

from sentemb.errors import InputError

logger = logging.getLogger(__name__)

Kind = Literal["scored-pairs", "sentences", "triples", "labelled", "retrieval"]
Format = Literal["tsv", "quoted-tsv", "csv", "jsonl", "label-first", "file-per-label", "semeval"]
SPLITS = ("train", "dev", "test")
"""The splits that most sets have; FewCLUE's also have folds, such as `train-0`."""
_HOLDS = {"scored-pairs": "scored pairs", "labelled": "labelled texts", "retrieval": "queries with qrels"}


class Published(BaseModel, frozen=True, extra="forbid"):
    """The files of a set as its authors published them, which differ from those on the hub."""

    # `label-first` is lines of a label, a space and a text; `file-per-label` a text a line, all of one label;
    # `semeval` pairs in `STS.input.X.txt` with their scores in `STS.gs.X.txt`.
    format: Format
    # By split, `a+b` for one after the other; by label in SentEval's order; by part of a `semeval` set.
    files: Mapping[str, str]
    columns: tuple[str, ...] = ()  # the entry's columns as these files call them; `a+b` joined by a space
    header: tuple[str, ...] = ()  # of files without a header line
    headers: Mapping[str, tuple[str, ...]] = {}  # the same by split, if only some lack it or they differ
    optional: int = 0  # how many of the last columns are missing in some rows
    spellings: tuple[str, ...] = ()  # of the labels, if neither their names nor their numbers
    no_label: str | None = None  # marks a row without an agreed label, which is skipped
    encoding: str = "utf-8"
    gold: str = ""  # the folder of a `semeval` set's scores next to its own, if they are a second download
    scored_first: bool = False  # more pairs were published than scored; the scored ones are first

    @property
    def by_split(self) -> Mapping[str, str]:
        """The files by split; none of a format that has one set of files."""
        return {} if self.format in ("file-per-label", "semeval") else self.files

    def of_split(self, split: str | None = None) -> list[str]:
        """Return the files of a split, or all of them, including those of the scores."""
        chosen = self.files if split is None or not self.by_split else {split: self.files.get(split, "")}
        names = [name for files in chosen.values() for name in files.split("+") if name]
        gold = [name.replace(".input.", ".gs.") for name in names]
        return names + gold if self.format == "semeval" else names


class Entry(BaseModel, frozen=True, extra="forbid"):
    """One data set of the catalogue.

    Attributes:
        name: The name used on the command line and in records.
        kind: What a row is: two sentences and a score; one sentence; anchor, positive and hard negative; or a
            text or a pair of texts with a label.
        columns: Columns of a row in the order of their roles.
        licence: The terms as the source states them; no legal advice.
        senteval: The folder inside SentEval's `downstream` folder, None if SentEval has no such set.
        layouts: Paths inside the data folder, tried in this order after `senteval`.
        derived_from: The set whose local files this one is made of.
        rows: Expected rows by split, of a retrieval set those of the qrels; empty if they were never counted.
        parts: Expected rows of each part of the test split, in SentEval's order.
        labels: Names of a labelled set's classes in the order of their numbers; empty if it has scores.
        unlabelled: The splits whose labels nobody published.
        published: The files as published, in a SentEval tree or in one of `layouts`.
        family: The common name of sets that differ in their languages.
        hub_id: The repository on the hub, with the `revision`, a commit, and `config`, the set's subset.
        files: The file of each split in that repository; of a subset what `fetch` makes.
        corpus: Of a retrieval set the files of the documents; `queries`, those of the queries.
        documents: Expected number of documents, whose language has the code `language`.

    Example:
        >>> get("stsb").columns
        ('sentence1', 'sentence2', 'score')
    """

    name: str
    kind: Kind
    description: str
    columns: tuple[str, ...]
    licence: str
    senteval: str | None = None
    layouts: tuple[str, ...] = ()
    derived_from: str | None = None
    rows: Mapping[str, int] = {}
    parts: Mapping[str, int] = {}
    labels: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    published: Published | None = None
    family: str | None = None
    hub_id: str | None = None
    revision: str | None = None
    config: str | None = None
    files: Mapping[str, str] = {}
    corpus: tuple[str, ...] = ("corpus.jsonl",)
    queries: tuple[str, ...] = ("queries.jsonl",)
    documents: int | None = None
    language: str = "en"
    url: str | None = None
    citation: Annotated[str, StringConstraints(strip_whitespace=True)] | None = None

    @property
    def base(self) -> Entry:
        """The set whose local files hold this one: itself, unless it is derived from another."""
        return get(self.derived_from) if self.derived_from else self

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return tuple(name for name in self.columns if name not in ("score", "similarity_score", "label"))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the set: train, dev and test first."""
        known = {**self.rows, **self.files, **(self.published.by_split if self.published else {})}
        return tuple(sorted(known, key=lambda split: SPLITS.index(split) if split in SPLITS else len(SPLITS)))


@cache
def _all() -> dict[str, Entry]:
    tables = tomllib.loads((files("sentemb.data") / "catalogue.toml").read_text(encoding="utf-8"))
    citations = tables.pop("citations")
    known: dict[str, Entry] = {}
    for name, table in tables.items():
        members = table.pop("members", None)
        for member, own in (members or {name: {}}).items():
            values: dict[str, Any] = {**table, **own}
            if table["kind"] == "retrieval":  # in the layout of BEIR, unless it says otherwise
                splits = {**values.get("rows", {}), **values.get("files", {})}
                qrels = {"format": "tsv", "files": {split: f"qrels/{split}.tsv" for split in splits}}
                columns, layouts = ["query-id", "corpus-id", "score"], [f"retrieval/{member}", member]
                values = {"columns": columns, "layouts": layouts, "published": qrels, **values}
            if members:  # whatever they share, `fetch` puts each member into a folder of its own name
                values |= {"family": name, "layouts": [*values.get("layouts", ()), member]}
            if "config" in values:
                values["files"] = {split: f"{split}.jsonl" for split in values["rows"]}
            values["citation"] = citations.get(values.get("citation"), values.get("citation"))
            # An empty string removes a value of the family.
            known[member] = Entry(name=member, **{key: value for key, value in values.items() if value != ""})
    return known


def get(name: str) -> Entry:
    """Look up a data set by its name.

    Raises:
        InputError: No data set has that name.

    Example:
        >>> get("stsb").kind
        'scored-pairs'
    """
    if name in _all():
        return _all()[name]
    if (members := expand([name])) != [name]:
        raise InputError(f"{name} is a family of data sets", f"name one of {', '.join(members)}")
    raise InputError(f"unknown data set {name!r}", suggest(name))


def is_entry(name: str) -> bool:
    """Tell whether a data set has that name."""
    return name in _all()


def suggest(name: str) -> str:
    """Return the next step for a name that no data set has."""
    close = difflib.get_close_matches(name, _all(), n=1)
    return f"did you mean {close[0]!r}?" if close else "list the names with `sentemb data list`"


def entries(kind: Kind | None = None) -> tuple[Entry, ...]:
    """Return all data sets, or those of one kind, in the order of the catalogue.

    Example:
        >>> sorted(entry.name for entry in entries("scored-pairs"))[:2]
        ['sickr', 'sickr-mteb']
    """
    return tuple(entry for entry in _all().values() if kind is None or entry.kind == kind)


def expand(names: Sequence[str]) -> list[str]:
    """Replace the name of each family with those of its members."""
    members: dict[str, list[str]] = {}
    for entry in entries():
        members.setdefault(entry.family or "", []).append(entry.name)
    return [member for name in names for member in (name and members.get(name)) or [name]]


def get_split(name: str, kind: Kind, split: str) -> Entry:
    """Look up a data set that must be of a kind and have a split."""
    entry = get(name)
    if entry.kind != kind:
        known = ", ".join(other.name for other in entries(kind)[:8])
        raise InputError(f"{name} does not contain {_HOLDS[kind]}", f"choose for example one of {known}")
    if split not in entry.splits:
        raise InputError(
            f"{name} does not have a split {split!r}", f"choose one of {', '.join(entry.splits)}"
        )
    return entry


def check_row_count(where: str, found: int, expected: int | None, *, strict: bool = True) -> None:
    """Refuse a copy with another row count, or warn: results of truncated copies have been published."""
    if expected is None or found == expected:
        return
    missing = expected - found
    difference = f"{missing:,} missing" if missing > 0 else f"{-missing:,} more than expected"
    message = f"{where} has {found:,} rows instead of {expected:,}: {difference}"
    if strict:
        step = "get a complete copy, or accept the difference (--allow-count-mismatch, check_rows=False)"
        raise InputError(message, step)
    logger.warning("%s", message)
