from __future__ import annotations

from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.training.checkpoints import (
    check_checkpoint,
    checkpoints,
    keep_weights,
    remove_remains,
    rotate,
    seal,
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


def test_a_checkpoint_without_what_was_dropped_is_complete(tmp_path: Path) -> None:
    for name in ("model", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        (tmp_path / name).write_text(name)
    seal(tmp_path)
    keep_weights(tmp_path)
    check_checkpoint(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model", "files.json"}
    (tmp_path / "model").unlink()
    with pytest.raises(InputError, match="model is missing"):
        check_checkpoint(tmp_path)


def test_remains_of_a_kill_go(folder: Path) -> None:
    remove_remains(folder)
    assert not list(folder.glob(".checkpoint-*"))
    assert (folder / "other").exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", b"cut", "model.safetensors does not match its checksum"),
        ("trainer_state.json", b'{"global_step": 4}', "trainer_state.json does not match its checksum"),
        ("1_Pooling/config.json", None, "1_Pooling/config.json is missing"),
        ("model.safetensors", b"\1" + bytes((2 << 20) - 1), "model.safetensors does not match its checksum"),
        ("files.json", None, "no such file: .*files.json"),
        ("files.json", b"[]", "does not list any files"),
        ("files.json", b"{", "not valid JSON"),
    ],
)
def test_a_damaged_checkpoint_is_one_clear_error(
    file: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(2 << 20))
    seal(tmp_path)
    check_checkpoint(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=rf"is damaged: .*{message}.*; delete its folder, then resume"):
        check_checkpoint(tmp_path)
