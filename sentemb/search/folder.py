"""The index folder on disk: the old index or the new one, whatever dies when.

Files carry the beginning of their checksum in their name, or a random number where they change, so that two
states never share one. The manifest is replaced last and in one step; what it does not mention was left by a
death and is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from sentemb._files import check_writable, settle, sha256_of
from sentemb._uris import refuse_uri
from sentemb.errors import InputError
from sentemb.search.manifest import NAME, Manifest, Role, StoredFile

_LOCK = ".lock"
WORK = ".compacting"
_OURS = re.compile(
    r"(vectors-[0-9a-f]{16}\.faiss|adapter-[0-9a-f]{16}\.npy"
    r"|(documents|living)-[0-9a-f]{16}\.sqlite(-wal|-shm|-journal)?"
    r"|\.(vectors|documents|living|adapter|manifest).*\.partial(-wal|-shm|-journal)?|\.compacting)"
)
_LOGS = ("-wal", "-shm", "-journal")
_SUFFIXES: dict[Role, str] = {
    "vectors": ".faiss",
    "documents": ".sqlite",
    "living": ".sqlite",
    "adapter": ".npy",
}
Writers = Mapping[Role, Callable[[Path], None]]
Opened = TypeVar("Opened")


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a place where no index can be saved."""
    refuse_uri(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file", "choose another output folder")
    if (path / NAME).exists():
        if not overwrite:
            raise InputError(f"{path} already contains an index", "pass --overwrite to replace it")
    elif path.exists() and (strangers := [child.name for child in path.iterdir() if not _is_ours(child)]):
        raise InputError(
            f"{path} is not empty and not an index: it contains {strangers[0]}",
            "choose another output folder",
        )
    check_writable(path)


def save_folder(path: Path, manifest: Manifest, writers: Writers, *, overwrite: bool) -> Manifest:
    """Write an index; of several processes that save to one folder, one does so at a time."""
    check_output(path, overwrite=overwrite)
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        with changing(path):
            check_output(path, overwrite=overwrite)  # another process may have saved meanwhile
            return place(path, dataclasses.replace(manifest, files={}), writers)
    except BaseException:
        if made and not (path / NAME).exists():
            with contextlib.suppress(OSError):  # another process has begun to save here
                path.rmdir()
        raise


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Be the only writer of a folder; afterwards nothing is left of what failed or was killed."""
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"{path} is not writable", "change its permissions, or copy the index")
    with FileLock(path / _LOCK):
        try:
            yield
        finally:
            _sweep(path)


def place(path: Path, manifest: Manifest, writers: Writers) -> Manifest:
    """Write files and then the manifest, which keeps those that it names; the caller holds the lock."""
    files = {role: _place(path, role, write) for role, write in writers.items()}
    living = files.pop("living", None)
    manifest = dataclasses.replace(
        manifest, files={**manifest.files, **files}, living=living.name if living else manifest.living
    )
    manifest.write(path)
    return manifest


def open_folder(path: Path, open_files: Callable[[Manifest], Opened], *, verify: bool) -> Opened:
    """Check an index folder and open its files; those of a new index, where it is replaced meanwhile."""
    while True:
        manifest = Manifest.read(path)
        try:
            _check_files(path, manifest, verify=verify)
            opened = open_files(manifest)
        except (InputError, OSError):
            if Manifest.read(path) == manifest:
                raise
            continue
        # A database that goes loses its log first: opened without it, it would be neither old nor new.
        if manifest.living is None or Manifest.read(path) == manifest:
            return opened


def bytes_on_disk(path: Path, manifest: Manifest) -> int:
    """The size of an index, of what was written and not merged too."""
    files = (path / (name + log) for name in manifest.names for log in ("", *_LOGS))
    return sum(file.stat().st_size for file in files if file.exists())


def _check_files(path: Path, manifest: Manifest, *, verify: bool) -> None:
    if manifest.living is not None and not (path / manifest.living).is_file():
        raise InputError(f"{path / manifest.living} is missing", "build the index again")
    for stored in manifest.files.values():
        file = path / stored.name
        if not file.is_file():
            raise InputError(f"{file} is missing", "build the index again")
        size = file.stat().st_size
        if size != stored.bytes:
            raise InputError(
                f"{file} has {size:,} bytes instead of {stored.bytes:,}", "build the index again"
            )
        if verify and sha256_of(file) != stored.sha256:
            raise InputError(f"{file} does not match its checksum", "build the index again")


def _place(folder: Path, role: Role, write: Callable[[Path], None]) -> StoredFile:
    partial = folder / f".{role}.{os.getpid()}.partial"
    write(partial)
    checksum = sha256_of(partial)
    mark = secrets.token_hex(8) if role == "living" else checksum[:16]
    stored = StoredFile(f"{role}-{mark}{_SUFFIXES[role]}", partial.stat().st_size, checksum)
    settle(partial, folder / stored.name)
    return stored


def _is_ours(child: Path) -> bool:
    return child.name == _LOCK or _OURS.fullmatch(child.name) is not None


def _sweep(folder: Path) -> None:
    """Remove our files that the manifest does not mention; readers that have them open keep them."""
    kept: set[str] = set()
    if (folder / NAME).exists():
        try:
            names = Manifest.read(folder).names
            kept = {name + log for name in names for log in ("", *_LOGS)}
        except InputError:  # damaged: what it needs cannot be known, so nothing is removed
            return
    for child in folder.iterdir():
        if not _is_ours(child) or child.name in kept:
            continue
        if child.is_dir():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)
