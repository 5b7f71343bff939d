"""What a run says about its data: which files, how large, which bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sentemb._files import sha256_of
from sentemb.data.catalogue import get
from sentemb.data.locate import local_files, resolve_data_dir
from sentemb.data.text import files_of, kind_of


def describe_source(
    source: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    rows: int | None = None,
) -> dict[str, Any]:
    """Describe a source for a run record.

    Args:
        source: What `read_records` takes.
        data_dir: Where the catalogue's sets lie; `SENTEMB_DATA` by default.
        rows: How many rows were used, if known.

    Returns:
        The source, its catalogue name, hub id and revision where it has them, its files with path, bytes and
        SHA-256, and the rows. A source that was streamed from the hub has no files.

    Raises:
        InputError: The data folder does not exist, a folder holds no readable file, or the hub that a source
            is on cannot be asked for its commit.
    """
    kind = kind_of(source)
    description: dict[str, Any] = {"source": str(source)}
    files: list[Path] = []
    if kind == "folder":
        files = files_of(Path(source))
    elif kind == "file":
        files = [Path(source)]
    elif kind == "entry":
        entry = get(str(source))
        description |= {"hub_id": entry.hub_id, "revision": entry.revision}
        root = resolve_data_dir(data_dir)
        files = local_files(entry, root) if root else []
    else:
        from sentemb.data.hub import resolve_commit

        hub_id, _, revision = str(source).partition("@")
        commit = resolve_commit(hub_id, revision=revision or None, needed_for="the run record")
        description |= {"hub_id": hub_id, "revision": commit}
    description["files"] = [
        {"path": str(file), "bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in files
    ]
    if rows is not None:
        description["rows"] = rows
    return description
