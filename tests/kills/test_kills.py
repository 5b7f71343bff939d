"""Signals at random moments: the same command again ends as if nothing had happened.

Every job is stopped `SENTEMB_KILLS` times by each signal, once by default; `make kill` stops it thirty times.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sentemb.cli.main import run
from tests import processes
from tests.conftest import build_tiny_bert
from tests.kills.jobs import JOBS, Job, make_inputs
from tests.waiting import wait_for

# A training that was asked to end has done so, with a checkpoint, by the same way for both signals.
EXITS = {signal.SIGKILL: {-signal.SIGKILL}, signal.SIGINT: {130}, signal.SIGTERM: {130, 143}}
STOPS = int(os.environ.get("SENTEMB_KILLS", "1"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def succeed(arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as left:
            run(arguments)
        assert not left.value.code

    folder = tmp_path_factory.mktemp("kills") / "inputs"
    make_inputs(folder, build_tiny_bert, succeed)
    processes.warm_up(folder / "log")
    return folder


Whole = Callable[[str], "tuple[dict[str, Any], float]"]


@pytest.fixture(scope="module")
def whole(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Return the output and the duration of a job that is not interrupted."""

    @cache
    def of(name: str) -> tuple[dict[str, Any], float]:
        output = tmp_path_factory.mktemp("whole") / "output"
        began = time.monotonic()
        code, said = start(JOBS[name], inputs, output)
        assert code == 0, said
        return JOBS[name].content(output), time.monotonic() - began

    return of


def start(
    job: Job, inputs: Path, output: Path, *, stop: tuple[float, signal.Signals] | None = None
) -> tuple[int | None, list[str]]:
    """Run a job, or begin it and stop it: its exit code, None if it was stopped, and what it said."""
    log = output.with_suffix(".log")
    log.unlink(missing_ok=True)
    process = processes.start(processes.command, job.command(inputs, output), log=log)
    stopped = False
    if stop is not None:
        wait_for(log.exists, alive=process.is_alive)  # a signal before that is not the command's
        process.join(stop[0])
        if stopped := process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, stop[1])
    process.join()
    said = log.read_text().splitlines()
    if stop is not None and stopped and process.exitcode:
        assert process.exitcode in EXITS[stop[1]], said
        return None, said
    return process.exitcode, said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", JOBS)
def test_the_same_command_again_ends_as_if_nothing_had_happened(
    name: str, number: signal.Signals, inputs: Path, whole: Whole, tmp_path: Path
) -> None:
    job = JOBS[name]
    generator = random.Random(f"{name} {number}")
    expected, duration = whole(name)
    assert any(expected.values())
    before = job.content(inputs)
    stops = attempt = 0
    while stops < STOPS:
        attempt += 1
        output = tmp_path / f"attempt-{attempt}"
        code = None
        while code is None:
            stop = (generator.uniform(0, duration), number) if stops < STOPS else None
            code, said = start(job, inputs, output, stop=stop)
            stops += code is None
        if code != 0:  # it was stopped between its last file and its end
            assert code == 2 and said[-1].startswith("sentemb: error: "), said
        assert job.content(output) == expected, said
        assert job.content(inputs) == before
