"""Where a data set of the catalogue lies: in the data folder, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from sentemb.data.archive import ARCHIVES, ROOTS, Place, find_senteval
from sentemb.data.catalogue import Entry
from sentemb.data.folder import VARIABLE, resolve_data_dir
from sentemb.errors import InputError


def find(entry: Entry, data_dir: Path) -> Place | None:
    """Find a set in a data folder."""
    base = entry.base
    if base.senteval and (place := find_senteval(data_dir, base.senteval)):
        return place
    places = (Place(data_dir / layout) for layout in base.layouts)
    return next((place for place in places if place.first_of(_files(base))), None)


def locate(entry: Entry, split: str, data_dir: str | os.PathLike[str] | None) -> Place:
    """Find a set in the data folder or, where none is given, download the file of a split from the hub."""
    root = resolve_data_dir(data_dir)
    if root is not None:
        place = find(entry, root)
    elif entry.hub_id is None:
        hint = f"name the folder that contains it with --data-dir or {VARIABLE}"
        raise MissingDataError(entry.name, f"{entry.name} is not on the hub", hint)
    else:
        from sentemb.data.hub import download

        file = entry.files[split]
        path = download(entry.hub_id, file, revision=entry.revision, needed_for=entry.name)
        place = find(entry, path) if path.name in ARCHIVES else Place(path)
    if place is None:
        raise missing(entry, root or Path())
    return place


def _files(entry: Entry) -> tuple[str, ...]:
    """The files that may lie in a folder of the set: as published, and as on the hub."""
    published = entry.published.file_names if entry.published else ()
    return (*published, *entry.files.values())


def candidates(entry: Entry) -> tuple[str, ...]:
    """Every place where a set is looked for, relative to the data folder."""
    base = entry.base
    if not base.senteval:
        return base.layouts
    folders = (f"{root}/{base.senteval}".lstrip("/") for root in ROOTS)
    return (*folders, *(f"{name}:{base.senteval}" for name in ARCHIVES), *base.layouts)


class MissingDataError(InputError):
    """A data set is in no place that was given; it may be left out, other than one that is damaged."""

    def __init__(self, name: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.name = name


def missing(entry: Entry, data_dir: Path) -> MissingDataError:
    """The error for a set that is not in the data folder."""
    looked = tuple(dict.fromkeys(candidates(entry)))
    shown = ", ".join(looked[:3]) + (f" and {len(looked) - 3} more" if len(looked) > 3 else "")
    fetch = f"download it with `sentemb data fetch {entry.base.name} --data-dir {data_dir}`"
    return MissingDataError(
        entry.name,
        f"{data_dir} does not contain {entry.name} (searched for {shown})",
        fetch if entry.base.hub_id else "choose another folder",
    )


def local_files(entry: Entry, data_dir: Path) -> list[Path]:
    """The files on disk that make up a set, for checksums."""
    place = find(entry, data_dir)
    if place is None:
        return []
    if place.path.is_file():
        return [place.path]
    files = {place.path / place.folder / file for file in _files(entry.base)}
    return sorted(file for file in files if file.is_file())
