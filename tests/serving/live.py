"""A server in a separate process."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests import processes
from tests.waiting import wait_for


class Live(NamedTuple):
    """A running server."""

    address: str
    port: int
    process: BaseProcess
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send a signal, and wait for the exit code."""
        if self.process.is_alive():
            assert self.process.pid is not None
            os.kill(self.process.pid, number)
        self.process.join()
        return self.process.exitcode


def live(log: Path, *arguments: str | Path, **environment: str) -> AbstractContextManager[Live]:
    """Run `sentemb serve ARGUMENTS` on a free port."""
    command = ["serve", "--port", "0", "--workers", "1", *map(str, arguments)]
    return running(log, processes.command, command, **environment)


@contextmanager
def running(log: Path, target: Callable[..., None], *arguments: Any, **environment: str) -> Iterator[Live]:
    """Run a function that serves, and wait until it listens and answers."""
    log.unlink(missing_ok=True)
    process = processes.start(target, *arguments, log=log, **environment)

    def is_alive() -> bool:
        assert process.is_alive(), _read(log).decode(errors="replace")
        return True

    try:
        wait_for(lambda: b"startup complete" in _read(log), alive=is_alive)
        found = re.search(rb"http://\S+:(\d+)", _read(log))
        assert found is not None
        yield Live(found[0].decode(), int(found[1]), process, log)
    finally:
        process.kill()
        process.join()


def _read(log: Path) -> bytes:
    return log.read_bytes() if log.exists() else b""


def serve_with(settings: dict[str, Any]) -> None:
    """Serve on a free port with settings for which the command does not have options."""
    from sentemb.serving.app import logger
    from sentemb.serving.server import serve
    from sentemb.serving.settings import Settings

    serve(Settings(port=0, workers=1, **settings), announce=lambda address: logger.info("%s", address))


def metric(server: Live, name: str) -> float:
    """Return the value of one of the server's metrics."""
    lines = httpx.get(f"{server.address}/metrics", timeout=None).text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))
