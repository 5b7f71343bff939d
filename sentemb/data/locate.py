"""Find the data sets of the catalogue, and read their rows in every format: published, and of the hub.

Texts stay as they are: SST's end in a space, some of CR and MPQA are empty, quotation marks of GLUE are text.
An empty line of a gold file of SemEval marks a pair that nobody scored.
"""

from __future__ import annotations

import os
import shlex
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb.data import files as tables
from sentemb.data.catalogue import Entry, Published
from sentemb.data.files import Lines, Numbered, Row
from sentemb.data.hub import download
from sentemb.data.lines import AnyPath, read_lines
from sentemb.errors import InputError

DataDir = AnyPath | None
"""A data folder; `SENTEMB_DATA` by default, or else the hub."""
VARIABLE = "SENTEMB_DATA"
"""Environment variable that names the data folder."""
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
            problem = ""
            try:
                with tarfile.open(path) as archive:
                    archive.extractall(scratch, filter="data")
            except (tarfile.TarError, EOFError) as error:
                problem = str(error).partition("\n")[0]
            place = find(entry, Path(scratch))
            if problem or place is None or not all(place.file(name).is_file() for name in needed):
                message = f"{path} is not a complete tar archive: {problem or 'it lacks files'}"
                raise InputError(message, "delete it, and download it again")
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            (place.path / place.folder).rename(target / inner)
    return Place(target / ROOTS[0], str(entry.senteval))


def published_at(entry: Entry, split: str, place: Place) -> Published | None:
    """Return how the files of a split at a place were published; None if they are those of the hub."""
    published = entry.published
    if published is None or place.folder:
        return published
    hub = [entry.files[split]] if split in entry.files else []
    if place.path.is_file():
        return None if any(file.endswith(place.path.name) for file in hub) else published
    return None if not place.first_of(published.of_split(split)) and place.first_of(hub) else published


def has_split(entry: Entry, split: str, place: Place) -> bool:
    """Tell whether a copy of a set has one of its splits."""
    published = entry.published.of_split(split) if entry.published else []
    hub = [entry.files[split]] if split in entry.files else []
    return bool(place.folder or place.path.is_file() or place.first_of([*published, *hub]))


def read_split(entry: Entry, split: str, place: Place) -> Iterator[Row]:
    """Yield the rows of a split, whose values are the entry's columns in their order."""
    return (row for _, rows in read_parts(entry, split, place) for row in rows)


def read_parts(entry: Entry, split: str, place: Place) -> Iterator[tuple[str, Iterable[Row]]]:
    """Yield the name and the rows of each part of a split; one part, with the set's name, if it has none."""
    columns = entry.text_columns if split in entry.unlabelled else entry.columns
    published = published_at(entry, split, place)
    if published is None:
        file = place.file(entry.files[split] if entry.files else "")
        yield entry.name, tables.read_file(file, columns=columns)
    elif published.format == "semeval":
        for part, name in published.files.items():
            yield part if entry.parts else entry.name, _read_semeval(published, place, name, columns)
    elif published.format == "file-per-label":
        yield entry.name, _read_file_per_label(published, place, columns)
    else:
        yield entry.name, _read_tables(entry, published, split, place, columns)


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


def _read_file_per_label(published: Published, place: Place, columns: Sequence[str]) -> Iterator[Row]:
    for label, name in published.files.items():
        file = place.file(name)
        for number, line in read_lines(file, encoding=published.encoding):
            yield Row(f"{file}:{number}", dict(zip(columns, (line, label), strict=True)))


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
