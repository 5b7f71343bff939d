"""A server in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from tests import processes


class Live(NamedTuple):
    """A server that listens."""

    address: str
    port: int
    process: BaseProcess
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send a signal, and wait for the exit code."""
        if self.process.is_alive():
            assert self.process.pid is not None
            os.kill(self.process.pid, number)
        self.process.join(60)
        return self.process.exitcode


def live(log: Path, *arguments: str | Path, **environment: str) -> AbstractContextManager[Live]:
    """Run `sentemb serve ARGUMENTS` on a free port."""
    command = ["serve", "--port", "0", "--workers", "1", *map(str, arguments)]
    return running(log, processes.command, command, **environment)


@contextmanager
def running(log: Path, target: Callable[..., None], *arguments: Any, **environment: str) -> Iterator[Live]:
    """Run a function that serves, until it listens and answers."""
    log.unlink(missing_ok=True)
    process = processes.start(target, *arguments, log=log, **environment)
    deadline = time.monotonic() + 120
    try:
        while (found := re.search(r"(http://\S+:(\d+))", _read(log))) is None or (
            "startup complete" not in _read(log)
        ):
            assert process.is_alive() and time.monotonic() < deadline, _read(log)
            time.sleep(0.02)
        yield Live(found[1], int(found[2]), process, log)
    finally:
        process.kill()
        process.join(60)


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
