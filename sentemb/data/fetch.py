"""Fetch data sets into the data folder, and count the rows of those that are there."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sentemb._files import sync_folder, write_text
from sentemb._uris import refuse_uri
from sentemb.data.archive import ARCHIVES, Place
from sentemb.data.catalogue import Entry, check_row_count, get
from sentemb.data.files import read_file
from sentemb.data.hub import download
from sentemb.data.labelled import count_rows
from sentemb.data.labelled_files import file_of, has_split
from sentemb.data.locate import find, missing
from sentemb.data.pair_files import read_subset
from sentemb.data.retrieval import check_counts as check_judged
from sentemb.data.retrieval import read_folder
from sentemb.data.sts import check_counts, read_place
from sentemb.errors import InputError


@dataclass(frozen=True)
class Count:
    """Rows of a split that is there: found (None where unreadable), expected, and what is wrong."""

    name: str
    split: str
    rows: int | None
    expected: int | None
    problem: str | None

    def __str__(self) -> str:
        which = f"{self.name} {self.split}"
        if self.problem:
            return self.problem if self.problem.startswith(which) else f"{which}: {self.problem}"
        return (
            f"{which}: {self.rows:,} rows{'' if self.expected else ' (the catalogue does not state a count)'}"
        )


def fetch(name: str, data_dir: Path, *, check_rows: bool = True) -> Place:
    """Download a set from the hub into the data folder, where the readers find it.

    The files are downloaded beside their place and counted there, so the folder never holds a part of a set.
    """
    refuse_uri(data_dir)
    source = get(name).base
    if data_dir.exists() and (place := find(source, data_dir)):
        return place
    if source.hub_id is None:
        raise InputError(f"{source.name} is not on the hub", "copy its file into the data folder manually")
    data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{source.name}.", suffix=".partial", dir=data_dir) as scratch:
        partial = Path(scratch) / source.name
        files = _write_subset(source, partial) if source.config else _download(source, partial)
        target = data_dir / source.name
        if files[-1].name in ARCHIVES:
            partial, target = files[-1], data_dir / files[-1].name
        _require_counts(source, partial, check_rows=check_rows)
        partial.replace(target)
    sync_folder(data_dir)
    found = find(source, data_dir)
    if found is None:
        raise missing(source, data_dir)
    return found


def count(entry: Entry, data_dir: Path) -> list[Count]:
    """Count the rows of a set that is in the data folder and compare them with the catalogue's."""
    place = find(entry, data_dir)
    if place is None:
        raise missing(entry, data_dir)
    there = [split for split in entry.splits if entry.kind != "labelled" or has_split(entry, split, place)]
    return [_count_split(entry, split, place) for split in there]


def _download(source: Entry, folder: Path) -> list[Path]:
    beside = {*source.corpus, *source.queries} if source.kind == "retrieval" else set()
    files = [
        download(str(source.hub_id), file, revision=source.revision, needed_for=source.name, local_dir=folder)
        for file in sorted({*source.files.values(), *beside})
    ]
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub client's bookkeeping
    return files


def _write_subset(source: Entry, folder: Path) -> list[Path]:
    """The rows of one subset of a repository; its files may hold those of all languages."""
    for split, name in source.files.items():
        pairs = (dict(zip(source.columns, pair, strict=True)) for pair in read_subset(source, split))
        lines = (json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs)
        write_text(folder / name, "".join(lines))
    return [folder / name for name in source.files.values()]


def _require_counts(entry: Entry, path: Path, *, check_rows: bool) -> None:
    place = find(entry, path) if path.is_file() else Place(path)
    if place is None:
        raise InputError(
            f"{entry.hub_id} at {entry.revision} does not contain {entry.name}",
            "report this as a bug of sentemb",
        )
    for split in entry.splits:
        counted = _count_split(entry, split, place)
        if counted.problem and (check_rows or counted.rows is None):
            raise InputError(counted.problem, "try again, or pass --allow-count-mismatch")


def _count_split(entry: Entry, split: str, place: Place) -> Count:
    expected = entry.rows.get(split)
    rows = None
    try:
        if entry.derived_from:
            rows = sum(2 * len(read_place(entry.base, part, place)) for part in entry.base.splits)
        elif entry.kind == "scored-pairs":
            pairs = read_place(entry, split, place)
            rows = len(pairs)
            check_counts(entry, pairs)
        elif entry.kind == "labelled":
            rows = count_rows(entry, split, place)
        elif entry.kind == "retrieval":
            judged = read_folder(entry, split, place.path)
            rows = len(judged.judged)
            check_judged(entry, judged)
        else:
            rows = sum(1 for _ in read_file(file_of(entry, split, place), columns=entry.columns))
        check_row_count(f"{entry.name} {split} ({place})", rows, expected)
    except InputError as error:
        return Count(entry.name, split, rows, expected, error.message)
    return Count(entry.name, split, rows, expected, None)
