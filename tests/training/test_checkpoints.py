from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sentemb.errors import InputError
from sentemb.training.checkpoints import check_checkpoint, checkpoints, remove_remains, rotate


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


def test_remains_of_a_kill_go(folder: Path) -> None:
    remove_remains(folder)
    assert not list(folder.glob(".checkpoint-*"))
    assert (folder / "other").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", None),  # cut in the middle
        ("trainer_state.json", b"{"),
        ("trainer_state.json", b"[]"),
        ("trainer_state.json", b'{"global_step": 3}'),
    ],
)
def test_a_damaged_checkpoint_is_one_clear_error(file: str, content: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text('{"log_history": []}')
    save_file({"weight": torch.ones(10)}, tmp_path / "model.safetensors")
    check_checkpoint(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:-8] if content is None else content)
    with pytest.raises(InputError, match=r"is damaged.*; remove its folder, and resume from the one before"):
        check_checkpoint(tmp_path)
