"""The data folder, and where in it the data sets of the catalogue are."""

from __future__ import annotations

import os
import shlex
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sentemb.data.catalogue import Entry
from sentemb.data.lines import read_lines
from sentemb.data.tables import Lines
from sentemb.errors import InputError

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


def resolve_data_dir(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the data folder: the argument, or else `SENTEMB_DATA`."""
    given = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if given is None:
        return None
    path = Path(given).expanduser()
    source = "" if data_dir is not None else f" (from {VARIABLE})"
    if not path.exists():
        fetch = f"sentemb data fetch sts --data-dir {shlex.quote(str(path))}"
        raise InputError(
            f"no such data folder: {path}{source}", f"check the path, or download data sets with `{fetch}`"
        )
    if not path.is_dir():
        raise InputError(f"the data folder {path}{source} is a file", "unpack it, and name the folder")
    return path


@dataclass(frozen=True)
class Place:
    """Where a set was found.

    Attributes:
        path: The set's file or folder; or a `downstream` folder of SentEval.
        folder: The set's folder in SentEval's layout; empty if `path` is the set's own.
    """

    path: Path
    folder: str = ""

    def __str__(self) -> str:
        return str(self.path)

    def name_of(self, file: str) -> str:
        """Return what errors and locations call a file."""
        return str(self.path / self.folder / file)

    def lines(self, file: str, *, encoding: str = "utf-8") -> Lines:
        """Return the numbered lines of a file."""
        return read_lines(self.path / self.folder / file, encoding=encoding)

    def first_of(self, files: Iterable[str]) -> Path | None:
        """Return the first of some files that exists; a set that is one file has no other."""
        if self.path.is_file():
            return self.path
        return next((path for file in files if (path := self.path / self.folder / file).is_file()), None)


def find(entry: Entry, data_dir: Path) -> Place | None:
    """Find a set in a data folder."""
    base = entry.base
    for root in ROOTS if base.senteval else ():
        if (data_dir / root / str(base.senteval)).is_dir():
            return Place(data_dir / root, str(base.senteval))
    places = (Place(data_dir / layout) for layout in base.layouts)
    return next((place for place in places if place.first_of(_files(base))), None)


def locate(entry: Entry, split: str, data_dir: str | os.PathLike[str] | None) -> Place:
    """Find a set in the data folder or, without one, download the file of a split from the hub."""
    root = resolve_data_dir(data_dir)
    if root is not None:
        place = find(entry, root)
        if place is None:
            raise missing(entry, root)
        return place
    return download_split(entry, split)


def download_split(entry: Entry, split: str) -> Place:
    """Download the file of a split to the cache of the hub; unpack it if it is an archive of SentEval."""
    if entry.hub_id is None:
        hint = f"name the folder that contains it with --data-dir or {VARIABLE}"
        raise MissingDataError(entry.name, f"{entry.name} is not on the hub", hint)
    from sentemb.data.hub import download

    path = download(entry.hub_id, entry.files[split], revision=entry.revision, needed_for=entry.name)
    return _unpack(entry, path) if path.suffix == ".tar" else Place(path)


def _unpack(entry: Entry, archive: Path) -> Place:
    """Unpack a set from a downloaded archive of SentEval, once, next to the archive."""
    target = archive.with_suffix("")
    place = find(entry, target)
    if place is None:
        target.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".") as scratch:
            try:
                with tarfile.open(archive) as file:
                    file.extractall(scratch, filter="data")
            except (tarfile.TarError, EOFError) as error:
                raise _incomplete(archive, str(error).partition("\n")[0]) from None
            place = find(entry, Path(scratch))
            # An archive that ends before a file has no error.
            files = entry.published.file_names if entry.published else []
            if place is None or not all(place.first_of([name]) for name in files):
                raise _incomplete(archive, f"it does not contain all files of {entry.name}")
            unpacked = target / ROOTS[0] / place.folder
            unpacked.parent.mkdir(parents=True, exist_ok=True)
            (place.path / place.folder).rename(unpacked)
        place = Place(target / ROOTS[0], place.folder)
    return place


def _incomplete(archive: Path, reason: str) -> InputError:
    return InputError(
        f"{archive} is not a complete tar archive: {reason}", "delete it, and download it again"
    )


def _files(entry: Entry) -> tuple[str, ...]:
    """Return the files that a folder of the set may contain: as published, and as on the hub."""
    published = entry.published.file_names if entry.published else ()
    return (*published, *entry.files.values())


def candidates(entry: Entry) -> tuple[str, ...]:
    """Return every path at which a set is searched for, relative to the data folder."""
    base = entry.base
    return (*(f"{root}/{base.senteval}".lstrip("/") for root in ROOTS if base.senteval), *base.layouts)


class MissingDataError(InputError):
    """A data set does not exist where it was searched for, so it may be skipped, unlike a damaged one."""

    def __init__(self, name: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.name = name


def missing(entry: Entry, data_dir: Path) -> MissingDataError:
    """Return the error for a set that is not in the data folder."""
    looked = tuple(dict.fromkeys(candidates(entry)))
    shown = ", ".join(looked[:3]) + (f" and {len(looked) - 3} more" if len(looked) > 3 else "")
    fetch = f"download it with `sentemb data fetch {entry.base.name} --data-dir {data_dir}`"
    return MissingDataError(
        entry.name,
        f"{data_dir} does not contain {entry.name} (searched for {shown})",
        fetch if entry.base.hub_id else "choose another folder",
    )


def local_files(entry: Entry, data_dir: Path) -> list[Path]:
    """Return the files that make up a set, for checksums."""
    place = find(entry, data_dir)
    if place is None:
        return []
    if place.path.is_file():
        return [place.path]
    files = {place.path / place.folder / file for file in _files(entry.base)}
    return sorted(file for file in files if file.is_file())
