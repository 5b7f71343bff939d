"""A process that forks for each change of an index, so that a test can kill the change.

It has not opened a database or imported torch, so that a fork is safe and takes a few milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from sentemb.search.index import SearchIndex
from tests.search.bag_of_words import FewWords


class Forks:
    """Client that begins changes and kills them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.search.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self._running: int | None = None
        self.end(self.begin("nothing", Path(), []))  # from now on it has imported everything

    def begin(self, how: str, folder: Path, what: list[Any]) -> int:
        """Begin a change after ending any change that a failed test left running."""
        if self._running is not None:
            self.end(self._running)
        self._running = int(self._ask(json.dumps([how, str(folder), what])))
        assert self._running > 1  # a signal to 0 or -1 would end all tests
        return self._running

    def end(self, process: int) -> bool:
        """Kill a change; return True if it had not finished."""
        os.kill(process, signal.SIGKILL)  # its number is its own until it is waited for
        self._running = None
        status = int(self._ask(""))
        assert status in (0, signal.SIGKILL), status
        return status != 0

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def change(how: str, folder: str, what: list[Any]) -> None:
    """Run the change that may be killed."""
    if how == "nothing":
        return
    index = SearchIndex.load(folder, FewWords())
    if how == "update":
        index.update(tuple(row) for row in what)
    elif how == "add":
        index.add(tuple(row) for row in what)
    elif how == "delete":
        index.delete(what)
    else:
        index.compact()


def main() -> None:
    """Fork for each line, and wait for the child once the next line says so."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            try:
                change(*json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _answer(process)
        sys.stdin.readline()
        _answer(os.waitpid(process, 0)[1])


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
