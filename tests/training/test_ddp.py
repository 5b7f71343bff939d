"""Two gloo processes against one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from sentemb.losses import SelfGuidedLoss
from sentemb.training import TrainConfig, train
from tests import processes
from tests.training.training_helpers import assert_equal, make_trainer, model_weights, weights_of


class SelfGuided(SelfGuidedLoss):
    """Gathers negatives, and draws nothing, so that one process can do the same."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, objective="opt3", projection_width=8)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0


def train_some(base: Path, output: Path, settings: dict[str, Any]) -> None:
    trainer = make_trainer(
        base, output, loss=SelfGuided, rows=64, save_strategy="no", max_steps=4, adam_epsilon=1e-2, **settings
    )
    trainer.train()
    save_file(weights_of(trainer), output / f"rank-{trainer.args.process_index}.safetensors")


def train_whole(config: dict[str, Any]) -> None:
    train(TrainConfig(**config))


def on_two_ranks(target: Callable[..., None], *arguments: Any, log: Path) -> None:
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
            WORLD_SIZE="2",
            LOCAL_WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(2)
    ]
    for process in ranks:
        process.join(300)
        assert process.exitcode == 0, log.read_text()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_two_processes_train_what_one_does(tiny_bert: Path, tmp_path: Path, accumulation: int) -> None:
    settings = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": accumulation}
    on_two_ranks(train_some, tiny_bert, tmp_path, settings, log=tmp_path / "log.txt")
    first, second = (load_file(tmp_path / f"rank-{rank}.safetensors") for rank in range(2))
    assert_equal(first, second)
    single = make_trainer(
        tiny_bert,
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


def test_a_run_on_two_processes_is_a_run(configure: Any, tmp_path: Path) -> None:
    config = configure("sg-opt", batch_size=4, max_steps=4)
    on_two_ranks(train_whole, config.values(), log=tmp_path / "log.txt")
    record = (Path(config.output) / "run" / "record.json").read_text()
    assert '"processes": 2' in record
    assert '"negatives_per_anchor": 28' in record
    assert '"status": "finished"' in record
    assert model_weights(Path(config.output))
