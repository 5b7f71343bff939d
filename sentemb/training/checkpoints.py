"""Checkpoint folders: complete under their own name, or hidden and never resumed from."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME

from sentemb._files import read_json
from sentemb.errors import InputError

_NAME = re.compile(r"checkpoint-(\d+)")


def checkpoint_name(step: int) -> str:
    """Folder name of the checkpoint after `step` optimizer steps, the one that transformers uses."""
    return f"checkpoint-{step}"


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Complete checkpoints in a folder."""
    if not folder.is_dir():
        return []
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return sorted((int(match[1]), path) for match, path in named if match)


def check_checkpoint(folder: Path) -> None:
    """Refuse a checkpoint whose files are cut or mixed up, before anything is made of it."""
    state = folder / TRAINER_STATE_NAME
    try:
        told = read_json(state)
        if not isinstance(told, dict) or not isinstance(told.get("log_history"), list):
            raise InputError(f"{state} is no state of a trainer")
        for path in sorted(folder.rglob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                file.keys()
    except (InputError, SafetensorError, OSError) as error:
        raise InputError(
            f"the checkpoint {folder} is damaged: {error}",
            "remove its folder, and resume from the one before or begin again",
        ) from error


def remove_folder(path: Path) -> None:
    """Remove a folder so that a kill midway leaves nothing under its name."""
    if not path.exists():
        return
    doomed = path.with_name(f".{path.name}.removed")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_remains(folder: Path) -> None:
    """Remove what kills left behind: folders half written and folders half removed."""
    for path in folder.glob(".checkpoint-*") if folder.is_dir() else ():
        shutil.rmtree(path, ignore_errors=True)


def rotate(folder: Path, *, keep: int | None, protected: Iterable[int]) -> None:
    """Remove the oldest checkpoints, but never the newest one nor a protected one."""
    present = checkpoints(folder)
    if keep is None or keep <= 0 or not present:
        return
    safe = {present[-1][0], *protected}
    removable = [path for step, path in present if step not in safe]
    for path in removable[: max(0, len(present) - keep)]:
        remove_folder(path)
