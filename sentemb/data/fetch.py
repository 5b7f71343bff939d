"""Download data sets into the data folder, and count the rows of those that are there."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from sentemb._files import sync_folder, write_text
from sentemb._uris import refuse_uri
from sentemb.data import retrieval, sts
from sentemb.data.catalogue import Entry, check_row_count, get
from sentemb.data.labelled import labelled_of
from sentemb.data.locate import (
    ROOTS,
    Place,
    download,
    download_split,
    find,
    has_split,
    missing,
    split_at,
    stream_subset,
)
from sentemb.errors import InputError


class Count(NamedTuple):
    """Rows of a split in the data folder: found (None if unreadable), expected, and what is wrong."""

    name: str
    split: str
    rows: int | None
    expected: int | None
    problem: str | None

    def __str__(self) -> str:
        which = f"{self.name} {self.split}"
        if self.problem and self.problem.startswith(which):
            return self.problem
        uncounted = "" if self.expected else " (the catalogue does not state a count)"
        return f"{which}: {self.problem or f'{self.rows:,} rows{uncounted}'}"


def fetch(name: str, data_dir: Path, *, check_rows: bool = True) -> Place:
    """Download a set from the hub into the data folder, which never has part of a set."""
    refuse_uri(data_dir)
    source = get(name).base
    if data_dir.exists() and (place := find(source, data_dir)):
        return place
    if source.hub_id is None:
        raise InputError(f"{source.name} is not on the hub", "copy its file into the data folder manually")
    data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{source.name}.", suffix=".partial", dir=data_dir) as scratch:
        partial = Path(scratch) / source.name
        if any(file.endswith(".tar") for file in source.files.values()):
            unpacked = download_split(source, source.splits[0])
            partial = Path(scratch) / ROOTS[0] / unpacked.folder
            shutil.copytree(unpacked.path / unpacked.folder, partial)
        elif source.config:  # a subset of a repository, whose files may hold those of all languages
            for split, file in source.files.items():
                rows = (json.dumps(row.values, ensure_ascii=False) for row in stream_subset(source, split))
                write_text(partial / file, "".join(f"{row}\n" for row in rows))
        else:
            others = {*source.corpus, *source.queries} if source.kind == "retrieval" else set()
            for file in sorted({*source.files.values(), *others}):
                options: Any = {"revision": source.revision, "needed_for": source.name}
                download(source.hub_id, file, local_dir=partial, **options)
            shutil.rmtree(partial / ".cache", ignore_errors=True)  # the hub client's bookkeeping
        for counted in count(source, Path(scratch)):
            if counted.problem and (check_rows or counted.rows is None):
                raise InputError(counted.problem, "try again, or pass --allow-count-mismatch")
        target = data_dir / partial.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.replace(target)
    sync_folder(data_dir)
    if found := find(source, data_dir):
        return found
    raise missing(source, data_dir)


def count(entry: Entry, data_dir: Path) -> list[Count]:
    """Count the rows of a set that is in the data folder and compare them with the catalogue's."""
    place = find(entry, data_dir)
    if place is None:
        raise missing(entry, data_dir)
    splits = [split for split in entry.splits if entry.kind != "labelled" or has_split(entry, split, place)]
    return [_count_split(entry, split, place) for split in splits]


def _count_split(entry: Entry, split: str, place: Place) -> Count:
    rows = None
    try:
        if entry.derived_from:
            every = (
                sts.pairs_of(entry.base, part, split_at(entry.base, part, place))
                for part in entry.base.splits
            )
            rows = sum(2 * len(pairs) for pairs in every)
        elif entry.kind == "scored-pairs":
            pairs = sts.pairs_of(entry, split, split_at(entry, split, place))
            rows = len(pairs)
            sts.check_counts(entry, pairs)
        elif entry.kind == "labelled" and split not in entry.unlabelled:
            rows = len(labelled_of(entry, split, split_at(entry, split, place)))
        elif entry.kind == "retrieval":
            found = retrieval.read_place(entry, split, place)
            rows = len(found.judged)
            retrieval.check_counts(entry, found)
        else:
            rows = sum(1 for _ in split_at(entry, split, place).rows)
        check_row_count(f"{entry.name} {split} ({place})", rows, entry.rows.get(split))
    except InputError as error:
        return Count(entry.name, split, rows, entry.rows.get(split), error.message)
    return Count(entry.name, split, rows, entry.rows.get(split), None)
