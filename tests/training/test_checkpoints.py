from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentemb.errors import InputError
from sentemb.training.checkpoints import (
    check_checkpoint,
    checkpoints,
    keep_weights,
    remove_remains,
    rotate,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "checkpoint-0",
        "checkpoint-10",
        "checkpoint-5",
        ".checkpoint-15.partial",
        "checkpoint-x",
        "other",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-20").write_text("a file, not a folder")
    return tmp_path


def test_only_complete_ones_count_in_order_of_steps(folder: Path) -> None:
    assert [step for step, _ in checkpoints(folder)] == [0, 5, 10]
    assert checkpoints(folder / "absent") == []


@pytest.mark.parametrize(
    ("keep", "protected", "left"),
    [
        (None, (), [0, 5, 10]),
        (1, (), [10]),
        (1, (0,), [0, 10]),
        (2, (0,), [0, 10]),
        (2, (), [5, 10]),
        (9, (), [0, 5, 10]),
    ],
)
def test_rotation_keeps_the_newest_and_the_protected(
    folder: Path, keep: int | None, protected: tuple[int, ...], left: list[int]
) -> None:
    rotate(folder, keep=keep, protected=protected)
    assert [step for step, _ in checkpoints(folder)] == left


def test_a_finished_run_keeps_only_weights(tmp_path: Path) -> None:
    for name in ("model", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        (tmp_path / name).write_text(name)
    keep_weights(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_remains_of_a_kill_go(folder: Path) -> None:
    remove_remains(folder)
    assert not list(folder.glob(".checkpoint-*"))
    assert (folder / "other").exists()


@pytest.mark.parametrize(
    "file", ["model.safetensors", "trainer_state.json", "1_Pooling/config.json", "optimizer.pt"]
)
def test_a_truncated_file_of_a_checkpoint_is_one_clear_error(file: str, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    save_file({"weight": torch.ones(8)}, tmp_path / "model.safetensors")
    torch.save({"state": torch.ones(8)}, tmp_path / "optimizer.pt")
    check_checkpoint(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"is damaged: .*{Path(file).name}.*; delete its folder, then"):
        check_checkpoint(tmp_path)
