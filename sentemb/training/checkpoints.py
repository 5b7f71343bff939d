"""Checkpoint folders: complete under their own name, or hidden and never resumed from."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

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
