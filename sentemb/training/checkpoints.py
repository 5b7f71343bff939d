"""Checkpoint folders: complete under their own name, or hidden and never resumed from."""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path

from sentemb._files import read_json, write_json
from sentemb.errors import InputError

_NAME = re.compile(r"checkpoint-(\d+)")
_FILES = "files.json"
_BLOCK = 1 << 20


def checkpoint_name(step: int) -> str:
    """Folder name of the checkpoint after `step` optimizer steps, the one that transformers uses."""
    return f"checkpoint-{step}"


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Complete checkpoints in a folder."""
    if not folder.is_dir():
        return []
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return sorted((int(match[1]), path) for match, path in named if match)


def seal(folder: Path) -> None:
    """List the files of a checkpoint, the last one that is written: what is lost or changed shows later."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_json(folder / _FILES, {path.relative_to(folder).as_posix(): _mark(path) for path in files})


def check_checkpoint(folder: Path) -> None:
    """Refuse a checkpoint of which a file is lost, cut or changed, before anything is made of it."""
    hint = "delete its folder, then resume from the previous checkpoint or start from scratch"
    try:
        listed = read_json(folder / _FILES)
    except (InputError, OSError) as error:
        raise InputError(f"checkpoint {folder} is damaged: {error}", hint) from error
    if not isinstance(listed, dict):
        raise InputError(f"checkpoint {folder} is damaged: {_FILES} does not list any files", hint)
    for name, mark in listed.items():
        if not (folder / name).is_file():
            raise InputError(f"checkpoint {folder} is damaged: {name} is missing", hint)
        if _mark(folder / name) != mark:
            raise InputError(f"checkpoint {folder} is damaged: {name} does not match its checksum", hint)


def drop_files(folder: Path, files: Iterable[Path]) -> None:
    """Remove files of a checkpoint; first from its list, so that what is left is complete at every moment."""
    doomed = [path for path in files if path.exists()]
    if (folder / _FILES).exists():
        names = {path.relative_to(folder).as_posix() for path in doomed}
        listed = read_json(folder / _FILES)
        write_json(folder / _FILES, {name: mark for name, mark in listed.items() if name not in names})
    for path in doomed:
        path.unlink()


def _mark(path: Path) -> str:
    """By what a file is known again; CRC-32 is fast enough to be taken of gigabytes at every save."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
    return f"crc32 {checksum:08x}"


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
