"""Signals at random moments and full disks: the same command again ends as if nothing had happened.

Every job is stopped `SENTEMB_KILLS` times by each signal, thirty times by `make kill`. By default it is
killed once, and interrupted or terminated once.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sentemb.cli.main import run
from sentemb.search import SearchIndex
from tests import processes
from tests.conftest import build_tiny_bert
from tests.kills.jobs import JOBS, Job, make_inputs
from tests.waiting import wait_for

# A training that was asked to end has done so, with a checkpoint, by the same way for both signals.
EXITS = {signal.SIGKILL: {-signal.SIGKILL}, signal.SIGINT: {130}, signal.SIGTERM: {130, 143}}
STOPS = int(os.environ.get("SENTEMB_KILLS", "1"))
SECRET = "a-secret-value"
# `run/config.toml` and the checkpoints are what the same machine resumes from.
PRIVATE = {"config.toml", "checkpoints"}


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


class Whole(NamedTuple):
    """A job that was not interrupted."""

    output: Path
    content: dict[str, Any]
    seconds: float


@pytest.fixture(scope="module")
def whole(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    @cache
    def run_whole(name: str) -> Whole:
        output = tmp_path_factory.mktemp("whole") / "output"
        began = time.monotonic()
        code, said = start(JOBS[name], inputs, output)
        assert code == 0, said
        return Whole(output, JOBS[name].content(output), time.monotonic() - began)

    return run_whole


def limited(arguments: list[str], size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    processes.command(arguments)


def start(
    job: Job,
    inputs: Path,
    output: Path,
    *,
    stop: tuple[float, signal.Signals] | None = None,
    size: int | None = None,
) -> tuple[int | None, list[str]]:
    """Run a job, or begin it and stop it: its exit code, None if it was stopped, and what it said.

    With a size, no file can become larger, which stands for a disk that is full.
    """
    log = output.with_suffix(".log")
    log.unlink(missing_ok=True)
    command = job.command(inputs, output)
    target, arguments = (processes.command, [command]) if size is None else (limited, [command, size])
    process = processes.start(target, *arguments, log=log, SENTEMB_SECRET=SECRET)
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


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, marks=pytest.mark.slow if place % 2 == skipped else ())
        for place, name in enumerate(JOBS)
        for number, skipped in ((signal.SIGKILL, None), (signal.SIGINT, 0), (signal.SIGTERM, 1))
    ],
)
def test_the_same_command_again_ends_as_if_nothing_had_happened(
    name: str, number: signal.Signals, inputs: Path, whole: Callable[[str], Whole], tmp_path: Path
) -> None:
    job = JOBS[name]
    generator = random.Random(f"{name} {number}")
    _, expected, duration = whole(name)
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


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if (place + other) % 3 == 0 else pytest.mark.slow)
        for place, name in enumerate(JOBS)
        for other, size in enumerate((3_000, 30_000, 300_000))
    ],
)
def test_a_full_disk_ends_a_command_in_one_line_that_names_the_file(
    name: str, size: int, inputs: Path, whole: Callable[[str], Whole], tmp_path: Path
) -> None:
    job, output = JOBS[name], tmp_path / "output"
    code, said = start(job, inputs, output, size=size)
    if code != 0:
        assert code == 2 and not any("Traceback" in line for line in said), said
        assert said[-1].startswith("sentemb: error: ") and str(output) in said[-1], said
        assert "File too large" in said[-1] or "No space left" in said[-1]
        code, said = start(job, inputs, output)
        assert code == 0, said
    assert job.content(output) == whole(name).content


@pytest.mark.parametrize("name", JOBS)
def test_no_published_file_names_a_folder_or_a_secret_of_this_machine(
    name: str, inputs: Path, whole: Callable[[str], Whole]
) -> None:
    output = whole(name).output
    files = [path for path in output.rglob("*") if path.is_file() and not PRIVATE & {*path.parts}]
    assert files
    for path in files:
        content = path.read_bytes()
        for word in (str(inputs), str(output), str(Path.home()), SECRET):
            assert word.encode() not in content, (path, word)


def test_an_index_and_its_model_can_be_moved_together(inputs: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(inputs / "bert", old / "bert")
    SearchIndex.build(["a cat", "a dog"], old / "bert").save(old / "index")
    old.rename(new)
    assert SearchIndex.load(new / "index").search("a cat", 1)[0].text == "a cat"
