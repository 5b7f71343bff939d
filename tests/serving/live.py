"""A server in a process of its own, as `sentemb serve` starts it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

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


@contextmanager
def live(log: Path, *arguments: str | Path, **environment: str) -> Iterator[Live]:
    """Run `sentemb serve ARGUMENTS` on a free port, until it listens and answers."""
    log.unlink(missing_ok=True)
    command = ["serve", "--port", "0", "--workers", "1", *map(str, arguments)]
    process = processes.start(processes.command, command, log=log, **environment)
    deadline = time.monotonic() + 120
    try:
        while (found := re.search(r"serving on (http://\S+:(\d+))", _read(log))) is None or (
            "startup complete" not in _read(log)
        ):
            assert process.is_alive() and time.monotonic() < deadline, _read(log)
            time.sleep(0.02)
        server = Live(found[1], int(found[2]), process, log)
        yield server
    finally:
        process.kill()
        process.join(60)


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
