"""Checkpoint folders: complete under their own name, or hidden and never resumed from."""

from __future__ import annotations

import errno
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sentemb._files import read_json, write_json, writing
from sentemb.errors import InputError

_ONLY_FOR_RESUMING = ("optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")
_FILES = "files.json"


def checkpoint_name(step: int) -> str:
    """Return the name that transformers gives to the checkpoint after `step` optimizer steps."""
    return f"checkpoint-{step}"


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return the complete checkpoints in a folder by their steps."""
    named = [(re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in folder.glob("checkpoint-*")]
    return sorted((int(match[1]), path) for match, path in named if match and path.is_dir())


def save_checkpoint(trainer: Any) -> None:
    """Write a checkpoint below a hidden name and rename it when every rank has written its part.

    transformers reads what it writes here with `weights_only`, so that loading runs no code.
    """
    arguments, state, wait = trainer.args, trainer.state, trainer.accelerator.wait_for_everyone
    folder, best = Path(arguments.output_dir), state.best_global_step
    final = folder / checkpoint_name(state.global_step)
    partial = folder / f".{final.name}.partial"
    trainer.store_flos()
    if arguments.should_save:
        remove_folder(partial)
        partial.mkdir(parents=True)
    wait()
    try:
        with writing(final):
            if not arguments.save_only_model:
                trainer._save_optimizer_and_scheduler(str(partial))
                trainer._save_scaler(str(partial))
                trainer._save_rng_state(str(partial))
            if arguments.should_save:
                trainer.save_weights(partial)
                if best is not None:
                    state.best_model_checkpoint = str(folder / checkpoint_name(best))
                callbacks = [*trainer.callback_handler.callbacks, trainer.control]
                exportable = [one for one in callbacks if isinstance(one, ExportableState)]
                state.stateful_callbacks = {type(one).__name__: one.state() for one in exportable}
                state.save_to_json(str(partial / TRAINER_STATE_NAME))
            wait()
            if arguments.should_save:
                seal(partial)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if "inline_container" in str(error):  # torch does not say which error its writer met
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(final)) from error
        raise
    if arguments.should_save:
        remove_folder(final)
        partial.rename(final)
        # The newest checkpoint and the best one stay.
        present = checkpoints(folder)
        excess = max(0, len(present) - (arguments.save_total_limit or len(present)))
        for path in [path for step, path in present[:-1] if step != best][:excess]:
            remove_folder(path)
    wait()


def seal(folder: Path) -> None:
    """List the files of a checkpoint with their checksums; the list is written last."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_json(folder / _FILES, {path.relative_to(folder).as_posix(): _checksum(path) for path in files})


def check_checkpoint(folder: Path) -> None:
    """Raise InputError if a file of a checkpoint is missing or changed."""
    try:
        listed = read_json(folder / _FILES)
        if not isinstance(listed, dict):
            raise InputError(f"{_FILES} does not list any files")
        for name, checksum in listed.items():
            if not (folder / name).is_file():
                raise InputError(f"{name} is missing")
            if _checksum(folder / name) != checksum:
                raise InputError(f"{name} does not match its checksum")
    except (InputError, OSError) as error:
        raise InputError(
            f"checkpoint {folder} is damaged: {error}",
            "delete its folder, then resume from the previous checkpoint or start from scratch",
        ) from error


def keep_weights(folder: Path) -> None:
    """Remove from a checkpoint what only a resumed run reads: first from its list, then the files."""
    doomed = [path for pattern in _ONLY_FOR_RESUMING for path in folder.glob(pattern)]
    if (listing := folder / _FILES).exists():
        gone = {path.name for path in doomed}
        write_json(listing, {name: sum for name, sum in read_json(listing).items() if name not in gone})
    for path in doomed:
        path.unlink()


def _checksum(path: Path) -> str:
    """Return the CRC-32 of a file, which is fast enough for gigabytes at every save."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return f"crc32 {checksum:08x}"


def remove_folder(path: Path) -> None:
    """Remove a folder so that a kill midway leaves nothing under its name."""
    if path.exists():
        doomed = path.with_name(f".{path.name}.removed")
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def remove_remains(folder: Path) -> None:
    """Remove the folders that a kill left half written or half removed."""
    for path in folder.glob(".checkpoint-*"):
        shutil.rmtree(path, ignore_errors=True)
