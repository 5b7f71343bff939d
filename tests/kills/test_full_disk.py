"""A disk that is full, and a limit on the size of files, end a command in one line that names the file."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests import processes
from tests.kills.jobs import JOBS
from tests.kills.test_kills import Whole, inputs, start, whole

__all__ = ["inputs", "whole"]


def limited(arguments: list[str], size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    processes.command(arguments)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if (place + other) % 3 == 0 else pytest.mark.slow)
        for place, name in enumerate(JOBS)
        for other, size in enumerate((3_000, 30_000, 300_000))
    ],
)
def test_one_line_and_the_same_command_resumes(
    name: str, size: int, inputs: Path, whole: Whole, tmp_path: Path
) -> None:
    job, output, log = JOBS[name], tmp_path / "output", tmp_path / "log"
    expected, _ = whole(name)
    process = processes.start(limited, job.command(inputs, output), size, log=log)
    process.join()
    said = log.read_text().splitlines()
    if process.exitcode != 0:
        assert process.exitcode == 2 and "Traceback" not in log.read_text(), said
        assert said[-1].startswith("sentemb: error: ") and str(output) in said[-1], said
        assert "File too large" in said[-1] or "No space left" in said[-1]
        code, said = start(job, inputs, output)
        assert code == 0, said
    assert job.content(output) == expected
