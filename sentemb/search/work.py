"""The folder of a build's intermediate files: one build at a time, resumed by the next one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sentemb.errors import InputError

SHARDS = "shard-*.npy"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a work folder; the same thread may enter it again."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(f"another process is building in {folder}", "wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def work_folder(path: Path, announce: Callable[[str], None]) -> Iterator[Path]:
    """A locked place beside an index: what is encoded outlives a failure, nothing outlives a success."""
    with locked(path):
        try:
            yield path
        except BaseException:
            if any(path.glob(SHARDS)):
                announce(f"what is encoded stays in {path}; the same command resumes the build")
            else:
                shutil.rmtree(path, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)
