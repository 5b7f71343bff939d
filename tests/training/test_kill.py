"""SIGKILL at random moments: what is left resumes to the weights of the uninterrupted run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from transformers import TrainerState

from sentemb.training.checkpoints import checkpoints
from sentemb.training.folder import RunFolder
from tests import processes
from tests.training.training_helpers import assert_equal, model_weights


class Process(Protocol):
    pid: int | None

    def join(self, timeout: float | None = None) -> None: ...

    @property
    def exitcode(self) -> int | None: ...


class Command:
    """A fresh `sentemb` process behind the interface of a forked one."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("ab") as file:
            program = [sys.executable, "-c", "from sentemb.cli.main import run; run()"]
            self._process = subprocess.Popen([*program, *arguments], stdout=file, stderr=file)
        self.pid = self._process.pid

    def join(self, timeout: float | None = None) -> None:
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()


def forked(arguments: list[str], log: Path) -> Process:
    return processes.start(processes.command, arguments, log=log)


Launch = Callable[[list[str], Path], Process]


def check_nothing_is_corrupt(output: Path) -> None:
    for _, path in checkpoints(output / "run" / "checkpoints"):
        TrainerState.load_from_json(str(path / "trainer_state.json"))
        model_weights(path)
    record = output / "run" / "record.json"
    if record.exists():
        json.loads(record.read_text())


def survive(
    launch: Launch, arguments: Callable[[Path], list[str]], folder: Path, *, kills: int, seed: int
) -> None:
    """Kill and resume; a run that comes through is compared, and the next one begins."""
    generator = random.Random(seed)
    log = folder / "log.txt"
    began = time.monotonic()
    whole = launch(arguments(folder / "whole"), log)
    whole.join(300)
    duration = time.monotonic() - began
    assert whole.exitcode == 0, log.read_text()
    expected = model_weights(folder / "whole")

    outputs = (folder / f"run-{number}" for number in range(10_000))
    output = next(outputs)
    done = 0
    while True:
        process = launch([*arguments(output), "--resume"], log)
        process.join(generator.uniform(0.0, duration) if done < kills else 300)
        if process.exitcode is None:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join(60)
            done += 1
            check_nothing_is_corrupt(output)
            if RunFolder(output).status() == "finished":  # killed on its way out
                assert_equal(expected, model_weights(output))
                output = next(outputs)
            continue
        assert process.exitcode == 0, log.read_text()
        assert_equal(expected, model_weights(output))
        if done >= kills:
            return
        output = next(outputs)


@pytest.fixture
def arguments(tiny_bert: Path, sentences_file: Path, dev_file: Path) -> Callable[[Path], list[str]]:
    def build(output: Path) -> list[str]:
        settings = ["loss_options.projection_width=8", "use_last=true", "epochs=2", "stopping=none"]
        return [
            *(
                "train",
                "sg-opt",
                "--base",
                str(tiny_bert),
                "--data",
                str(sentences_file),
                "--dev",
                str(dev_file),
            ),
            *("--output", str(output), "--batch-size", "8", "--max-length", "16", "--eval-steps", "1"),
            *(part for setting in settings for part in ("--set", setting)),
        ]

    return build


def test_a_handful_of_kills(arguments: Callable[[Path], list[str]], tmp_path: Path) -> None:
    processes.warm_up(tmp_path / "log.txt")
    survive(forked, arguments, tmp_path, kills=4, seed=0)


@pytest.mark.slow
def test_twenty_kills_of_real_commands(arguments: Callable[[Path], list[str]], tmp_path: Path) -> None:
    survive(Command, arguments, tmp_path, kills=20, seed=1)
