"""The folder of a build's intermediate files: one build at a time, resumed by the next one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from sentemb._files import held
from sentemb.search.manifest import NAME

SHARDS = "shard-*.npy"


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep other processes out of a work folder; the same thread may enter it again."""
    busy = f"another process is building in {folder}"
    return held(folder / "lock", busy, "wait until it has finished", reentrant=True)


@contextlib.contextmanager
def work_folder(path: Path, announce: Callable[[str], None], *, output: Path | None = None) -> Iterator[Path]:
    """A locked place beside an index: what is encoded outlives a failure, nothing outlives a success.

    An interruption after `output` was written is one of a success.
    """
    before = _written(output)
    with locked(path):
        try:
            yield path
        except BaseException:
            if any(path.glob(SHARDS)) and _written(output) == before:
                announce(f"encoded texts are kept in {path}; run the same command again to resume the build")
            else:
                shutil.rmtree(path, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)


def _written(output: Path | None) -> tuple[int, int] | None:
    """Which manifest an index folder has, if any."""
    try:
        found = None if output is None else (output / NAME).stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns)
