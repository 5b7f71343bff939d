"""Processes that die, fail and are replaced: every task is done once, in order."""

from __future__ import annotations

import errno
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.encoding.workers import local_workers
from sentemb.errors import InputError
from tests.waiting import stay, wait_for


def squares(folder: Path, deaths: int, threads: int) -> Callable[[int], int]:
    """Squares numbers; at 3 the process is killed, so many times."""

    def work(number: int) -> int:
        marks = len(list(folder.iterdir()))
        if number == 3 and marks < deaths:
            (folder / str(marks)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 99:
            raise InputError("99 is too many", "give fewer")
        if number == 77:
            raise OSError(errno.ENOSPC, "No space left on device", "shard-77")
        return number * number

    return work


def test_results_come_in_order_although_a_worker_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    with local_workers(functools.partial(squares, tmp_path, 1), count=2, say=said.append) as workers:
        assert list(workers.run(iter(range(12)))) == [number * number for number in range(12)]
    assert said == ["a worker stopped (signal 9); retrying shard 4"]


def test_what_kills_every_worker_ends_the_work(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"workers stopped 3 times on shard 4 .*signal 9"),
        local_workers(functools.partial(squares, tmp_path, 9), count=1, say=print) as workers,
    ):
        list(workers.run(iter(range(12))))


@pytest.mark.parametrize(
    ("number", "message"), [(99, "99 is too many; give fewer"), (77, "No space left on device: 'shard-77'")]
)
def test_errors_of_a_task_come_through(tmp_path: Path, number: int, message: str) -> None:
    with (
        pytest.raises((InputError, OSError), match=message),
        local_workers(functools.partial(squares, tmp_path, 0), count=2, say=print) as workers,
    ):
        list(workers.run(iter([1, number, 2])))


def _starting_badly(folder: Path, task: int, threads: int) -> Callable[[int], int]:
    """Dies at four of its starts, never at three in a row, and once at a task."""
    start = len(list(folder.iterdir()))
    (folder / str(start)).touch()
    if start in (0, 1, 3, 4):
        os.kill(os.getpid(), signal.SIGKILL)

    def work(number: int) -> int:
        if number == task and start == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return work


def test_only_failed_starts_in_a_row_end_the_work(tmp_path: Path) -> None:
    with local_workers(functools.partial(_starting_badly, tmp_path, 2), count=1, say=str) as workers:
        assert list(workers.run(iter(range(4)))) == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 6


def _naming_its_process(folder: Path, threads: int) -> Callable[[int], int]:
    (folder / str(os.getpid())).touch()
    return lambda number: stay()


PARENT = """
import functools, pathlib, sys
from sentemb.encoding.workers import local_workers
from tests.encoding.test_workers import _naming_its_process

if __name__ == "__main__":
    make = functools.partial(_naming_its_process, pathlib.Path(sys.argv[1]))
    with local_workers(make, count=1, say=print) as workers:
        list(workers.run(iter([1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_killed_parent_leaves_no_worker(tmp_path: Path) -> None:
    program, marks = tmp_path / "program.py", tmp_path / "marks"
    program.write_text(PARENT)
    marks.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, str(program), str(marks)], env=environment) as parent:
        wait_for(lambda: any(marks.iterdir()), alive=lambda: parent.poll() is None)
        parent.kill()
    (mark,) = marks.iterdir()
    wait_for(lambda: not _is_running(int(mark.name)))


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
