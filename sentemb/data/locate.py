"""Find the data sets of the catalogue in a data folder or on the hub, and read their rows in every format.

Texts stay as they are: SST's end in a space, some of CR and MPQA are empty, quotation marks of GLUE are text.
An empty line of a gold file of SemEval marks a pair that nobody scored.
"""

from __future__ import annotations

import os
import shlex
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from sentemb.data import files as tables
from sentemb.data.catalogue import Entry, Published
from sentemb.data.files import AnyPath, Lines, Numbered, Row, read_lines, require_columns
from sentemb.errors import InputError

DataDir = AnyPath | None
"""A data folder; `SENTEMB_DATA` by default, or else the hub."""
VARIABLE = "SENTEMB_DATA"
"""Environment variable that names the data folder."""
_OR_LOCAL = f"or name a folder that contains the data (--data-dir, {VARIABLE})"
# Untokenized text before SentEval's own layout before SimCSE's (sets at the root) before tokenized text.
ROOTS = (
    "senteval/downstream",
    "SentEval/data/downstream",
    "data/downstream",
    "downstream",
    "",
    "senteval_tok/downstream",
)


class MissingDataError(InputError):
    """A data set does not exist where it was searched for, so it may be skipped, unlike a damaged one."""

    def __init__(self, name: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.name = name


def resolve_data_dir(data_dir: DataDir) -> Path | None:
    """Return the data folder: the argument, or else `SENTEMB_DATA`."""
    given = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if given is None:
        return None
    path = Path(given).expanduser()
    source = "" if data_dir is not None else f" (from {VARIABLE})"
    if not path.exists():
        fetch = f"`sentemb data fetch sts --data-dir {shlex.quote(str(path))}`"
        hint = f"check the path, or download data sets with {fetch}"
        raise InputError(f"no such data folder: {path}{source}", hint)
    if not path.is_dir():
        raise InputError(f"the data folder {path}{source} is a file", "unpack it, and name the folder")
    return path


@dataclass(frozen=True)
class Place:
    """The place of a set: its file or folder, or its `folder` inside a `downstream` folder of SentEval."""

    path: Path
    folder: str = ""

    def __str__(self) -> str:
        return str(self.path)

    def file(self, name: str) -> Path:
        """Return the path of one of the set's files."""
        return self.path if self.path.is_file() else self.path / self.folder / name

    def first_of(self, files: Iterable[str]) -> Path | None:
        """Return the first of some files that exists; a set that is one file has no other."""
        return next((path for path in [*map(self.file, files)] if path.is_file()), None)


def find(entry: Entry, data_dir: Path) -> Place | None:
    """Find a set in a data folder."""
    base = entry.base
    for root in ROOTS if base.senteval else ():
        if (data_dir / root / str(base.senteval)).is_dir():
            return Place(data_dir / root, str(base.senteval))
    places = (Place(data_dir / layout) for layout in base.layouts)
    return next((place for place in places if place.path.is_file() or place.first_of(_files(base))), None)


def _files(entry: Entry) -> list[str]:
    """Return the files that a folder of the set may contain: as published, and as on the hub."""
    return [*(entry.published.of_split() if entry.published else ()), *entry.files.values()]


def local_files(entry: Entry, data_dir: Path) -> list[Path]:
    """Return the files that make up a set, for checksums."""
    place = find(entry, data_dir)
    if place is None:
        return []
    files = [place.path] if place.path.is_file() else {place.file(name) for name in _files(entry.base)}
    return sorted(file for file in files if file.is_file())


def candidates(entry: Entry) -> tuple[str, ...]:
    """Return every path at which a set is searched for, relative to the data folder."""
    base = entry.base
    return (*(f"{root}/{base.senteval}".lstrip("/") for root in ROOTS if base.senteval), *base.layouts)


def missing(entry: Entry, data_dir: Path) -> MissingDataError:
    """Return the error for a set that is not in the data folder."""
    looked = tuple(dict.fromkeys(candidates(entry)))
    shown = ", ".join(looked[:3]) + (f" and {len(looked) - 3} more" if len(looked) > 3 else "")
    fetch = f"download it with `sentemb data fetch {entry.base.name} --data-dir {data_dir}`"
    message = f"{data_dir} does not contain {entry.name} (searched for {shown})"
    return MissingDataError(entry.name, message, fetch if entry.base.hub_id else "choose another folder")


def locate(entry: Entry, split: str, data_dir: DataDir) -> Place:
    """Find a set in the data folder or, without one, download the file of a split from the hub."""
    root = resolve_data_dir(data_dir)
    if root is None:
        return download_split(entry, split)
    if place := find(entry, root):
        return place
    raise missing(entry, root)


def download_split(entry: Entry, split: str) -> Place:
    """Download the file of a split to the cache of the hub; unpack it if it is an archive of SentEval."""
    if entry.hub_id is None:
        hint = f"name the folder that contains it with --data-dir or {VARIABLE}"
        raise MissingDataError(entry.name, f"{entry.name} is not on the hub", hint)
    path = download(entry.hub_id, entry.files[split], revision=entry.revision, needed_for=entry.name)
    if path.suffix != ".tar":
        return Place(path)
    target, inner = path.with_suffix(""), f"{ROOTS[0]}/{entry.senteval}"
    if not (target / inner).is_dir():  # unpacked once, next to the archive
        target.mkdir(exist_ok=True)
        needed = entry.published.of_split() if entry.published else []
        with tempfile.TemporaryDirectory(dir=target, prefix=".") as scratch:
            try:
                with tarfile.open(path) as archive:
                    archive.extractall(scratch, filter="data")
                place = find(entry, Path(scratch))
                if place is None or not all(place.file(name).is_file() for name in needed):
                    raise EOFError("it lacks files")
            except (tarfile.TarError, EOFError) as error:
                message = f"{path} is not a complete tar archive: {str(error).splitlines()[0]}"
                raise InputError(message, "delete it, and download it again") from None
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            (place.path / place.folder).rename(target / inner)
    return Place(target / ROOTS[0], str(entry.senteval))


def has_split(entry: Entry, split: str, place: Place) -> bool:
    """Tell whether a copy of a set has one of its splits."""
    published = entry.published.of_split(split) if entry.published else []
    hub = [entry.files[split]] if split in entry.files else []
    return bool(place.folder or place.path.is_file() or place.first_of([*published, *hub]))


class Split(NamedTuple):
    """One split of a set: the name and the rows of each part, to be read once and in order."""

    parts: Iterator[tuple[str, Iterable[Row]]]
    source: str  # for records
    published: Published | None  # how its files were published; None if they are those of the hub

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all parts, whose values are the entry's columns in their order."""
        return chain.from_iterable(rows for _, rows in self.parts)


def open_split(entry: Entry, split: str, data_dir: DataDir) -> Split:
    """Open a split of a set in the data folder or, without one, on the hub."""
    if entry.config is not None and resolve_data_dir(data_dir) is None:
        parts = iter([(entry.name, stream_subset(entry, split))])
        return Split(parts, f"{entry.hub_id}@{entry.revision} {entry.config}", None)
    return split_at(entry, split, locate(entry, split, data_dir))


def split_at(entry: Entry, split: str, place: Place) -> Split:
    """Open a split of a set where the set was found."""
    published = entry.published
    hub = [entry.files[split]] if split in entry.files else []
    if published is not None and not place.folder:
        if place.path.is_file():
            is_hub = any(file.endswith(place.path.name) for file in hub)
        else:
            is_hub = bool(not place.first_of(published.of_split(split)) and place.first_of(hub))
        published = None if is_hub else published
    # Records of scored pairs name the file.
    file = place.first_of(hub) if published is None and entry.kind == "scored-pairs" else None
    return Split(_parts(entry, published, split, place), str(file or place), published)


def _parts(
    entry: Entry, published: Published | None, split: str, place: Place
) -> Iterator[tuple[str, Iterable[Row]]]:
    columns = entry.text_columns if split in entry.unlabelled else entry.columns
    if published is None:
        file = place.file(entry.files[split] if entry.files else "")
        yield entry.name, tables.read_file(file, columns=columns)
    elif published.format == "semeval":
        for part, name in published.files.items():
            yield part if entry.parts else entry.name, _read_semeval(published, place, name, columns)
    elif published.format == "file-per-label":
        for label, name in published.files.items():
            lines = read_lines(place.file(name), encoding=published.encoding)
            yield entry.name, _label_rows(place.file(name), lines, label, columns)
    else:
        yield entry.name, _read_tables(entry, published, split, place, columns)


def _label_rows(file: Path, lines: Lines, label: str, columns: Sequence[str]) -> Iterator[Row]:
    for number, line in lines:
        yield Row(f"{file}:{number}", dict(zip(columns, (line, label), strict=True)))


def _read_tables(
    entry: Entry, published: Published, split: str, place: Place, columns: Sequence[str]
) -> Iterator[Row]:
    names = (published.columns or entry.columns)[: len(columns)]
    texts = len(entry.text_columns)
    files = [place.file(name) for name in published.of_split(split)]
    if not place.folder and not files[0].is_file():
        hint = f"get a copy of {entry.name} that contains its {split} split"
        raise InputError(f"no such file: {files[0]}", hint)
    wanted = [part for name in names for part in name.split("+")]
    header, style = published.header or published.headers.get(split), published.format
    for file in files:
        where, lines = str(file), read_lines(file, encoding=published.encoding)
        if style == "tsv":
            rows = tables.parse_tsv(where, lines, wanted, header=header, optional=published.optional)
        elif style in ("csv", "quoted-tsv"):
            mark = "," if style == "csv" else "\t"
            rows = tables.parse_csv(where, lines, wanted, header=header, delimiter=mark)
        else:
            parse = tables.parse_jsonl if style == "jsonl" else _parse_label_first
            rows = parse(where, lines, wanted)
        for number, values in rows:
            row = Row(f"{file}:{number}", values)
            cells = [" ".join(map(row.text, name.split("+"))) for name in names[:texts]]
            cells += [values[name] for name in names[texts:]]
            if published.no_label is None or cells[-1] != published.no_label:
                yield Row(row.location, dict(zip(columns, cells, strict=True)))


def _parse_label_first(where: str, lines: Lines, columns: Sequence[str] | None) -> Iterator[Numbered]:
    """Yield lines of a label, a space and a text; of a label such as TREC's `DESC:manner` the coarse part."""
    for number, line in lines:
        label, space, text = line.partition(" ")
        if not space:
            raise InputError(f"{where}, line {number}: expected a label, a space and a text")
        yield number, dict(zip(columns or (), (text, label.partition(":")[0]), strict=True))


def _read_semeval(published: Published, place: Place, name: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield sentences and scores of two files with the same number of lines."""
    pairs, gold = place.file(name), place.file(name.replace(".input.", ".gs."))
    second_download = place.file(f"../{published.gold}/{gold.name}")
    if not gold.is_file() and second_download.is_file():
        gold = second_download
    texts, scores = list(read_lines(pairs)), list(read_lines(gold))
    if published.scored_first:
        texts = texts[: len(scores)]
    if len(texts) != len(scores):
        message = f"{pairs} has {len(texts):,} pairs but {gold} {len(scores):,} scores"
        raise InputError(message, "get complete copies of both")
    for (number, text), (_, score) in zip(texts, scores, strict=True):
        first, tab, rest = text.partition("\t")
        if score.strip() and not tab:
            raise InputError(f"{pairs}, line {number}: expected two sentences with a tab between them")
        if score.strip():
            cells = (first, rest.partition("\t")[0], score)
            yield Row(f"{gold}:{number}", dict(zip(columns, cells, strict=True)))


def download(
    hub_id: str, filename: str, *, revision: str | None, needed_for: str, local_dir: Path | None = None
) -> Path:
    """Download one file of a data set, or find it in the hub's cache."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    if local_dir is None and revision is not None and len(revision) == 40:
        # A commit never changes, so what the cache has needs no network.
        cached = try_to_load_from_cache(hub_id, filename, repo_type="dataset", revision=revision)
        if isinstance(cached, str):
            return Path(cached)
    commit = resolve_commit(hub_id, revision=revision, needed_for=needed_for)
    with _explained(hub_id, revision, needed_for):
        return Path(
            hf_hub_download(hub_id, filename, repo_type="dataset", revision=commit, local_dir=local_dir)
        )


def resolve_commit(hub_id: str, *, revision: str | None, needed_for: str) -> str:
    """Ask the hub which commit a revision is now: one request, so that a dead network is noticed at once."""
    with _explained(hub_id, revision, needed_for):
        return _commit(hub_id, revision)


@cache
def _commit(hub_id: str, revision: str | None) -> str:
    """Asked once a process, so that a run reads and records the same commit from beginning to end."""
    from huggingface_hub import HfApi

    return str(HfApi().dataset_info(hub_id, revision=revision, timeout=10.0).sha)


def stream_subset(entry: Entry, split: str) -> Iterator[Row]:
    """Stream the rows of a set that is a subset of a repository on the hub."""
    options = {"revision": entry.revision, "config": entry.config, "split": split}
    name = f"{entry.hub_id} {entry.config}"
    return stream(str(entry.hub_id), columns=entry.columns, name=name, **options)


def stream(
    hub_id: str,
    *,
    revision: str | None,
    columns: Sequence[str] | None,
    name: str,
    config: str | None = None,
    split: str | None = None,
) -> Iterator[Row]:
    """Stream the rows of a data set on the hub, called by a name, without downloading it first."""
    from datasets import load_dataset

    commit = resolve_commit(hub_id, revision=revision, needed_for=hub_id)
    with _explained(hub_id, revision, hub_id):
        splits = load_dataset(hub_id, config, revision=commit, streaming=True)
        names = list(splits)
        wanted = split or ("train" if "train" in names or len(names) != 1 else names[0])
        if wanted not in names:
            message = f"{hub_id} does not have a split {wanted!r}, only {', '.join(names)}"
            raise InputError(message, "download the split that you need, and pass its file")
        for number, values in enumerate(splits[wanted], start=1):
            if number == 1:
                require_columns(columns, list(values), hub_id)
            yield Row(f"{name}:{number}", {column: values[column] for column in columns or values})


@contextmanager
def _explained(hub_id: str, revision: str | None, needed_for: str) -> Iterator[None]:
    """Turn the errors of the hub's clients into InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        found = _explain(error, hub_id, revision, needed_for)
        if found is None:
            raise
        raise found from error


def _explain(error: Exception, hub_id: str, revision: str | None, needed_for: str) -> InputError | None:
    """Return what an error of the hub's clients means; None for any other error."""
    from huggingface_hub import constants, errors

    place, server = f"{hub_id} at {revision}" if revision else hub_id, constants.ENDPOINT
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    offline = constants.HF_HUB_OFFLINE or is_a(errors.OfflineModeIsEnabled)
    no_set = is_a(errors.RepositoryNotFoundError) or type(error).__name__ == "DatasetNotFoundError"
    no_file = is_a(errors.EntryNotFoundError) and not is_a(errors.LocalEntryNotFoundError)
    # No data files, several configurations, a loading script, in datasets' own words.
    unreadable = type(error).__module__.startswith("datasets") or type(error) in (RuntimeError, ValueError)
    no_network = is_a(OSError) or any(type(cause).__module__.startswith("httpx") for cause in causes)
    needs, restricted = f"{needed_for} needs {place}", f"access to {hub_id} is restricted"
    no_revision, bad_id = f"{hub_id} does not have a revision {revision}", f"{hub_id!r} is not a hub id"
    broken = f"{place} cannot be read: {str(error).partition(chr(10))[0]}"
    unreachable = f"{needs}, but {server} cannot be reached ({type(causes[-1]).__name__})"
    for applies, message, hint in (
        (offline, f"{needs} from the hub, but HF_HUB_OFFLINE is set", f"unset HF_HUB_OFFLINE, {_OR_LOCAL}"),
        (is_a(errors.GatedRepoError), restricted, f"accept its terms at {server} and log in"),
        (is_a(errors.RevisionNotFoundError), no_revision, "check the name of the commit or branch"),
        (no_set, f"data set {hub_id} not found at {server}", "check the name, and log in if it is private"),
        (no_file, f"{place} does not contain the file for {needed_for}", "check the revision"),
        (is_a(errors.HFValidationError), bad_id, "write owner/name"),
        (unreadable, broken, "download its files, and pass their path"),
        (no_network, unreachable, f"check the network and HF_ENDPOINT, {_OR_LOCAL}"),
    ):
        if applies:
            return InputError(message, hint)
    return None
