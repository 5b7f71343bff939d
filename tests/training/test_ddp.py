"""Several gloo processes against one."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from sentemb.losses import SelfGuidedLoss
from sentemb.training import Interrupted, TrainConfig, train
from tests import processes
from tests.conftest import build_tiny_bert
from tests.training.training_helpers import assert_equal, make_trainer, model_weights, stop_at, weights_of


class SelfGuided(SelfGuidedLoss):
    """Gathers negatives, and draws nothing, so that one process can do the same."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, objective="opt3", projection_width=8)


def train_some(base: Path, output: Path, settings: dict[str, Any]) -> None:
    trainer = make_trainer(
        base, output, loss=SelfGuided, rows=64, save_strategy="no", max_steps=4, adam_epsilon=1e-2, **settings
    )
    trainer.train()
    save_file(weights_of(trainer), output / f"rank-{trainer.args.process_index}.safetensors")


def train_whole(config: dict[str, Any]) -> None:
    train(TrainConfig(**config))


def train_until(stop: int, config: dict[str, Any]) -> None:
    """Train, and meet SIGTERM in a step: the first process one step before the others."""
    stop_at(pytest.MonkeyPatch(), stop - (os.environ.get("RANK", "0") != "0"), signal.SIGTERM)
    try:
        train(TrainConfig(**config), resume=True)
    except Interrupted as error:
        assert error.step == stop - 1
        return
    assert stop > config["max_steps"]


def on_ranks(world: int, target: Callable[..., None], *arguments: Any, log: Path, code: int = 0) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        processes.start(
            target,
            *arguments,
            log=log,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(world),
            LOCAL_WORLD_SIZE=str(world),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(world)
    ]
    for process in ranks:
        process.join()
        assert process.exitcode == code, log.read_text()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_two_processes_train_what_one_does(tmp_path: Path, accumulation: int) -> None:
    base = build_tiny_bert(tmp_path / "bert", dropout=0.0)
    settings = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": accumulation}
    on_ranks(2, train_some, base, tmp_path, settings, log=tmp_path / "log.txt")
    first, second = (load_file(tmp_path / f"rank-{rank}.safetensors") for rank in range(2))
    assert_equal(first, second)
    single = make_trainer(
        base,
        tmp_path / "single",
        loss=SelfGuided,
        rows=64,
        save_strategy="no",
        max_steps=4,
        adam_epsilon=1e-2,
        **settings | {"per_device_train_batch_size": 8},
    )
    single.train()
    for name, tensor in weights_of(single).items():
        torch.testing.assert_close(first[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


def losses_of(output: Path) -> dict[int, float]:
    lines = (output / "run" / "metrics.jsonl").read_text().splitlines()
    return {entry["step"]: entry["loss"] for entry in map(json.loads, lines) if "loss" in entry}


def test_a_run_on_two_processes_is_a_run(configure: Any, tmp_path: Path) -> None:
    config = configure("sg-opt", batch_size=8, max_steps=4)
    on_ranks(2, train_whole, config.values(), log=tmp_path / "log.txt")
    record = (Path(config.output) / "run" / "record.json").read_text()
    assert '"processes": 2' in record
    assert '"negatives_per_anchor": 28' in record
    assert '"status": "finished"' in record
    assert model_weights(Path(config.output))


def test_a_run_goes_on_with_another_number_of_processes(configure: Any, tmp_path: Path) -> None:
    # 45 rows: the last batch of an epoch has five. `opt1` draws a layer for every sentence.
    options = {"objective": "opt1", "temperature": 0.1}
    base = str(build_tiny_bert(tmp_path / "bert", dropout=0.0))
    settings = {"base": base, "max_steps": 13, "use_last": True, "eval_steps": 4, "loss_options": options}
    alone = configure("sg-opt", output=str(tmp_path / "alone"), **settings)
    several = configure("sg-opt", output=str(tmp_path / "several"), **settings)
    log = tmp_path / "log.txt"
    single = processes.start(train_until, 99, alone.values(), log=log)
    single.join()
    assert single.exitcode == 0, log.read_text()
    for world, stop in ((2, 5), (3, 99)):
        on_ranks(world, train_until, stop, several.values(), log=log)
    expected, found = losses_of(Path(alone.output)), losses_of(Path(several.output))
    assert list(expected) == list(range(1, 14))
    assert found == pytest.approx(expected, abs=1e-5)
    record = json.loads((Path(several.output) / "run" / "record.json").read_text())
    assert [session["from_step"] for session in record["sessions"]] == [0, 4]


def test_bad_input_is_one_line_and_ends_every_process(configure: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    config = configure("sg-opt")
    files = ["--base", config.base, "--data", config.data, "--dev", config.dev, "--max-length", "16"]
    arguments = ["train", "sg-opt", *files, "--output", str(tmp_path / "new"), "--batch-size", "1"]
    on_ranks(2, processes.command, arguments, log=log, code=2)
    (line,) = log.read_text().splitlines()
    assert line.startswith("sentemb: error: batch_size 1 is too small for 2 processes; raise --batch-size")
    assert not (tmp_path / "new").exists()
