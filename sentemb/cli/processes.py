"""Output of the processes that torchrun started: the first prints for all."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PATIENCE = 5.0
"""Seconds in which the first process reports what every process has met, before another one does."""


def other_process() -> str | None:
    """Return the number of this process if it is not the first of several."""
    rank = os.environ.get("RANK", "0")
    return None if rank == "0" or os.environ.get("WORLD_SIZE", "1") == "1" else rank


@contextlib.contextmanager
def only_the_first_speaks() -> Iterator[None]:
    """Print nothing on the other processes, except the error that ends one."""
    if other_process() is None:
        yield
        return
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def wait_for_the_first(code: int) -> None:
    """Leave the report of an error to the first process, which torchrun would end together with this one."""
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
    time.sleep(_PATIENCE)
