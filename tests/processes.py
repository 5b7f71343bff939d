"""Processes that start in no time: forked from a server that has imported everything and run nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["sentemb.training.run", "sentemb.cli.main", "tests.training.training_helpers", "tests.warm"]
)


def start(target: Callable[..., None], *arguments: Any, log: Path, **environment: str) -> BaseProcess:
    """Run a function of a test module in a process of its own."""
    process = _CONTEXT.Process(target=_enter, args=(target, arguments, log, environment), daemon=True)
    process.start()
    return process


def run_code(code: str, *arguments: str) -> None:
    """Run `python -c CODE ARGUMENTS`."""
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})


def output_of(code: str, *arguments: str, log: Path, **environment: str) -> str:
    """Return what `python -c CODE ARGUMENTS` prints, without the seconds that its imports would take."""
    process = start(run_code, code, *arguments, log=log, **environment)
    process.join()
    said = log.read_text(encoding="utf-8")
    assert process.exitcode == 0, said
    return said


def number() -> Any:
    """A whole number that a process and its parent share, -1 at first."""
    return _CONTEXT.Value("q", -1)


def command(arguments: list[str]) -> None:
    """Run `sentemb ARGUMENTS`."""
    from sentemb.cli import main

    build = main.build

    def begin() -> Any:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return build()

    main.build = begin  # it is called where an interrupt is handled, so that none comes before that
    try:
        main.run(arguments)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # what follows is not part of the command
            signal.signal(number, signal.SIG_IGN)


def _enter(target: Callable[..., None], arguments: Any, log: Path, environment: dict[str, str]) -> None:
    # The log says that it has begun: from here on it ends as a command does, however late that gets the core.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update(environment)
    # Only so can it have processes of its own; it is still ended with its parent.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    target(*arguments)


def warm_up(log: Path) -> None:
    """Wait until the server has imported everything."""
    process = start(print, log=log)
    process.join()
    assert process.exitcode == 0
