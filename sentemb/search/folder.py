"""The index folder on disk: the old index or the new one, regardless of when a process is killed.

index/
├─ manifest.json              names the database; replaced last and in one step
├─ index-….sqlite             documents, chunks, vectors, keywords and facts; the only truth
└─ vectors-….faiss            the vector index of what was there when it was built; a cache

A new index in the folder gets a database of another name, so that processes which have the old one open keep
it. What the manifest does not name was left by a kill and is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from sentemb._files import check_writable, held, write_text
from sentemb._uris import refuse_uri
from sentemb.errors import InputError
from sentemb.search.encoded import SHARDS
from sentemb.search.manifest import NAME, Manifest

FORMAT = 7
WORK = ".compacting"
_LOCK = ".lock"
_DATABASE = re.compile(r"index-[0-9a-f]{16}\.sqlite")
_OURS = re.compile(
    r"(vectors-[0-9a-f]{16}\.faiss|index-[0-9a-f]{16}\.sqlite(-wal|-shm|-journal)?"
    r"|\.(vectors|index|manifest).*\.partial(-wal|-shm|-journal)?|\.compacting)"
    # What earlier versions wrote, which an index in their place removes.
    r"|(documents|living)-[0-9a-f]{16}\.sqlite(-wal|-shm|-journal)?|adapter-[0-9a-f]{16}\.npy"
)
_LOGS = ("-wal", "-shm", "-journal")
_NO_SPACE = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHM")
REBUILD = "build the index again"


def is_index(path: str | Path) -> bool:
    """Return whether a folder has an index."""
    return (Path(path) / NAME).is_file()


def read_pointer(folder: Path) -> Path:
    """Return the database of an index folder, which exists.

    Args:
        folder: The index folder.

    Returns:
        The path of the database.

    Raises:
        InputError: There is no index, it is damaged, or it is of another version.
    """
    database = _named(folder)
    while not database.is_file():
        before, database = database, _named(folder)
        if database == before:  # the folder was not replaced meanwhile
            raise InputError(f"{database} is missing", REBUILD)
    return database


def _named(folder: Path) -> Path:
    path = folder / NAME
    try:
        value = json.loads(path.read_bytes())
        found, name = value["format"], value.get("database")
    except FileNotFoundError:
        raise InputError(
            f"{folder} is not an index: {NAME} is missing", "build one with `sentemb index build`"
        ) from None
    except NotADirectoryError:
        raise InputError(f"{folder} is a file, not an index folder") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not the manifest of an index", REBUILD) from None
    if found != FORMAT:
        newer = isinstance(found, int) and found > FORMAT
        raise InputError(
            f"{path} has the format {found!r}, but this version of sentemb reads format {FORMAT}",
            "update sentemb, or build the index again" if newer else REBUILD,
        )
    if not isinstance(name, str) or not _DATABASE.fullmatch(name):
        raise InputError(f"{path} does not name the database of an index", REBUILD)
    return folder / name


def write_pointer(folder: Path, database: Path) -> None:
    """Make a database the index of a folder, in one step."""
    write_text(folder / NAME, json.dumps({"format": FORMAT, "database": database.name}, indent=2) + "\n")


def new_database(folder: Path) -> Path:
    """Return a path for the database of a new index, which no index ever had."""
    return folder / f"index-{secrets.token_hex(8)}.sqlite"


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise InputError, before any work is done, if no index can be saved in a place."""
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


@contextlib.contextmanager
def saving(path: Path, *, overwrite: bool) -> Iterator[None]:
    """Put an index into a folder: one process at a time, and a new folder goes with a failure."""
    check_output(path, overwrite=overwrite)
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        with changing(path):
            check_output(path, overwrite=overwrite)  # another process may have saved meanwhile
            yield
    except BaseException:
        if made and not (path / NAME).exists():
            with contextlib.suppress(OSError):  # another process has begun to save here
                path.rmdir()
        raise


def bytes_on_disk(path: Path) -> int:
    """Return the size of an index folder."""
    return sum(child.stat().st_size for child in path.iterdir() if child.name == NAME or _is_ours(child))


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise the `OSError` of any other file where SQLite says in its own words that the disk is full."""
    try:
        yield
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        code = errno.ENOSPC if full else errno.EIO
        raise OSError(code, f"{os.strerror(code)} ({error})", str(path)) from error


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name the file that SQLite cannot make sense of."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where it cannot say why
        if str(getattr(error, "sqlite_errorname", None)).startswith(_NO_SPACE):  # reading may write the log
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({error})", str(path)) from error
        raise InputError(f"the database {path} cannot be read: {error}", REBUILD) from None


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Keep other processes out of a work folder; the same thread may enter it again."""
    busy = f"another process is building in {folder}"
    with held(folder / "lock", busy, "wait until it has finished", reentrant=True):
        yield folder


@contextlib.contextmanager
def work_folder(path: Path, announce: object, *, output: Path | None = None) -> Iterator[Path]:
    """Yield a locked folder: what is encoded outlives a failure, nothing outlives a success.

    An interruption after `output` was written is one of a success.

    Args:
        path: The folder.
        announce: Called with a sentence where encoded texts are kept.
        output: The index folder that is written.
    """
    before = _written(output)
    with building(path):
        try:
            yield path
        except BaseException:
            if any(path.glob(SHARDS)) and _written(output) == before:
                assert callable(announce)
                announce(f"encoded texts are kept in {path}; run the same command again to resume the build")
            else:
                shutil.rmtree(path, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)


def _written(output: Path | None) -> tuple[int, int] | None:
    """Return which manifest an index folder has, if any."""
    try:
        found = None if output is None else (output / NAME).stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns)


def _is_ours(child: Path) -> bool:
    return child.name == _LOCK or _OURS.fullmatch(child.name) is not None


def _sweep(folder: Path) -> None:
    """Remove our files that the index does not name; readers that have them open keep them."""
    kept: set[str] = set()
    if (folder / NAME).exists():
        try:
            database = read_pointer(folder)
            kept = {read_manifest(folder).cache, *(database.name + log for log in ("", *_LOGS))}
        except (InputError, OSError):  # damaged: what it needs cannot be known, so nothing is removed
            return
    for child in folder.iterdir():
        if not _is_ours(child) or child.name in kept:
            continue
        if child.is_dir():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an index folder as it was when its vector index was built, without verifying it.

    Args:
        folder: The index folder.

    Returns:
        The manifest, without the counts of documents.

    Raises:
        InputError: There is no index, or it is damaged.
    """
    database = read_pointer(folder)
    writable = os.access(database, os.W_OK) and os.access(folder, os.W_OK)
    uri = f"{database.absolute().as_uri()}?mode={'rw' if writable else 'ro'}"
    with readable(database), contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
        (facts,) = connection.execute("SELECT facts FROM settings").fetchone()
    return Manifest.parse(facts, database, folder)
