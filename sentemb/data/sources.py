"""Rows of text from files, folders, URIs, data sets of the catalogue and repositories on the hub."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sentemb._files import sha256_of, shareable
from sentemb._uris import is_remote, is_uri, local_path
from sentemb.data.catalogue import Entry, check_row_count, get, is_entry, suggest
from sentemb.data.files import (
    FORMATS,
    PACKED,
    PAGES,
    AnyPath,
    RemotePath,
    Row,
    Source,
    format_of,
    read_file,
    refuse_bare_string,
    require_columns,
    source_at,
)
from sentemb.data.labelled import load_labelled
from sentemb.data.locate import DataDir, local_files, open_split, resolve_commit, resolve_data_dir, stream
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def read_rows(
    source: AnyPath,
    *,
    columns: Sequence[str] | None = None,
    data_dir: DataDir = None,
    check_rows: bool = True,
) -> Iterator[Row]:
    """Stream rows of text from a source of any size.

    Formats: `.txt` has a text a line, in column `text`; blank lines are skipped and counted; `.csv` follows
    RFC 4180; `.tsv` has no quoting; `.jsonl` has an object a line; `.parquet`; `.md` and `.rst` are one
    document each, in columns `title` and `text`. Each may be compressed as `.gz`, `.xz`, `.bz2` or `.zst`.
    Text is UTF-8. Tables start with a header. Empty cells are kept.

    Args:
        source: A file; a folder, whose files of these formats are read in the order of their paths, pages
            only if there is nothing else; a URI of a file or folder, such as `s3://bucket/docs.jsonl`, that
            fsspec reads; a data set of the catalogue, or on the hub, `owner/name` or `owner/name@revision`.
        columns: Columns to keep, in this order; all by default.
        data_dir: The data folder of the catalogue; `SENTEMB_DATA` by default, or else the hub.
        check_rows: Raise InputError after the last row if a catalogue's set has another row count.

    Raises:
        InputError: The source or a column does not exist, or the content is broken; with file and line.

    Example:
        >>> row = next(read_rows("docs.jsonl"))
        >>> sorted(row.values)
        ['id', 'text']
    """
    refuse_bare_string(columns)
    kind = kind_of(source)
    if kind == "entry":
        yield from _read_entry(get(str(source)), columns, data_dir, check_rows=check_rows)
    elif kind == "hub":
        hub_id, _, revision = str(source).partition("@")
        yield from stream(hub_id, revision=revision or None, columns=columns, name=str(source))
    else:
        place = source_at(source)
        for file in files_of(place) if kind == "folder" else [place]:
            yield from read_file(file, columns=columns)


def kind_of(source: AnyPath) -> Literal["file", "folder", "entry", "hub"]:
    """Tell what a source is; an existing path takes precedence over a data set of the same name."""
    if not str(source):
        raise InputError("the name of the data is empty", "pass a file, a folder, a hub id or a data set")
    path = source_at(source)
    if path.is_dir():
        return "folder"
    if format_of(path) in FORMATS or path.exists():
        return "file"
    if is_entry(str(source)):
        return "entry"
    if _HUB_ID.fullmatch(str(source)) and not Path(source).parent.is_dir():
        return "hub"
    if is_uri(source):
        raise InputError(f"no such file or folder: {path}")
    raise InputError(f"no such file, folder, or data set: {source}", suggest(str(source)))


def files_of(folder: Source) -> list[Source]:
    """Return the files of a folder and its subfolders that have a known format, without hidden ones."""
    if isinstance(folder, RemotePath):
        files: list[Source] = [*folder.files()]
    else:
        inner = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
        files = [folder / path for path in inner if not any(part.startswith(".") for part in path.parts)]
    readable = [path for path in files if format_of(path) in FORMATS]
    # Pages next to data describe it.
    readable = [path for path in readable if format_of(path) not in PAGES] or readable
    if not readable:
        formats = f"use {', '.join(FORMATS)}, also as {', '.join(PACKED)}"
        raise InputError(f"{folder} does not contain a readable file", formats)
    if len(readable) < len(files):
        logger.warning("%s: skipped %d files of other formats", folder, len(files) - len(readable))
    return readable


def _read_entry(
    entry: Entry, columns: Sequence[str] | None, data_dir: DataDir, *, check_rows: bool
) -> Iterator[Row]:
    """Yield the training rows of a set."""
    if entry.kind == "retrieval":
        message = f"{entry.name} has separate files for documents and queries"
        raise InputError(message, "name one of its files, such as corpus.jsonl")
    if "train" not in entry.splits:
        raise InputError(f"{entry.name} is a test set, without texts to train on or to search")
    require_columns(columns, entry.columns, entry.name)
    reading: dict[str, Any] = {"data_dir": data_dir, "check_rows": check_rows}
    cells: Iterable[tuple[Any, ...]]
    if entry.derived_from:
        every = (load_scored_pairs(entry.base.name, split=split, **reading) for split in entry.base.splits)
        both = (texts for pairs in every for texts in zip(pairs.first, pairs.second, strict=True))
        cells = ((text,) for texts in both for text in texts)
    elif entry.kind == "scored-pairs":
        pairs = load_scored_pairs(entry.name, split="train", **reading)
        cells = zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
    elif entry.kind == "labelled":
        data = load_labelled(entry.name, split="train", **reading)
        cells = ((*texts, label) for texts, label in zip(data.rows(), data.labels.tolist(), strict=True))
    else:
        cells = (tuple(row.values.values()) for row in open_split(entry, "train", data_dir).rows)
    count = 0
    for count, row in enumerate(cells, start=1):
        values = dict(zip(entry.columns, row, strict=True))
        yield Row(f"{entry.name}:{count}", {name: values[name] for name in columns or values})
    check_row_count(entry.name, count, entry.rows.get("train"), strict=check_rows)


def describe_source(source: AnyPath, *, data_dir: DataDir = None, rows: int | None = None) -> dict[str, Any]:
    """Describe a source for a run record.

    Args:
        source: What `read_rows` takes.
        data_dir: The data folder of the catalogue; `SENTEMB_DATA` by default.
        rows: How many rows were used, if known.

    Returns:
        The source, its hub id and revision if it has them, its files with path, bytes and SHA-256 (none
        if it was streamed), and the rows.

    Raises:
        InputError: The data folder or a readable file in a folder does not exist, or the hub does not answer.

    Example:
        >>> facts = describe_source("sentences.txt")
        >>> sorted(facts)
        ['files', 'source']
    """
    description: dict[str, Any] = {"source": shareable(source)}
    files: list[Path] = []
    kind = "remote" if is_remote(source) else kind_of(source)
    if kind == "folder":
        files = [file for file in files_of(local_path(source)) if isinstance(file, Path)]
    elif kind == "file":
        files = [local_path(source)]
    elif kind == "entry":
        entry, root = get(str(source)), resolve_data_dir(data_dir)
        description |= {"hub_id": entry.hub_id, "revision": entry.revision}
        files = local_files(entry, root) if root else []
    elif kind == "hub":
        hub_id, _, revision = str(source).partition("@")
        commit = resolve_commit(hub_id, revision=revision or None, needed_for="the run record")
        description |= {"hub_id": hub_id, "revision": commit}
    description["files"] = [
        {"path": shareable(file), "bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in files
    ]
    return description if rows is None else {**description, "rows": rows}


def name_files(description: Mapping[str, Any]) -> str:
    """List the files of a source that `describe_source` described, with their checksums, for a card."""
    files = description.get("files", [])
    named = (f"{Path(file['path']).name} (SHA-256 {file['sha256'][:12]})" for file in files)
    return ", ".join(named) or str(description["source"])
