"""Checkpoint folders: complete under their own name, or hidden and never resumed from."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from sentemb._files import read_json, writing
from sentemb.errors import InputError

_ONLY_FOR_RESUMING = ("optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")


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
    protected = () if best is None else (best,)
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
                for step in protected:
                    state.best_model_checkpoint = str(folder / checkpoint_name(step))
                callbacks = [*trainer.callback_handler.callbacks, trainer.control]
                exportable = [one for one in callbacks if isinstance(one, ExportableState)]
                state.stateful_callbacks = {type(one).__name__: one.state() for one in exportable}
                state.save_to_json(str(partial / TRAINER_STATE_NAME))
            wait()
    except (OSError, RuntimeError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if "inline_container" in str(error):  # torch does not say which error its writer met
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(final)) from error
        raise
    if arguments.should_save:
        remove_folder(final)
        partial.rename(final)
        rotate(folder, keep=arguments.save_total_limit, protected=protected)
    wait()


def check_checkpoint(folder: Path) -> None:
    """Raise InputError if a file of a checkpoint was truncated, or is missing."""
    path = folder / TRAINER_STATE_NAME
    try:
        read_json(path)
        for path in sorted(folder.rglob("*")):
            if path.suffix == ".safetensors":
                with safe_open(path, "pt"):
                    pass
            elif path.suffix in (".pt", ".pth"):
                ZipFile(path).close()
            elif path.suffix == ".json":
                read_json(path)
    except (InputError, OSError, SafetensorError, BadZipFile) as error:
        raise InputError(
            f"checkpoint {folder} is damaged: {path.name}: {error}",
            "delete its folder, then resume from the previous checkpoint or start from scratch",
        ) from error


def keep_weights(folder: Path) -> None:
    """Remove from a checkpoint what only a resumed run reads."""
    for path in (path for pattern in _ONLY_FOR_RESUMING for path in folder.glob(pattern)):
        path.unlink()


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


def rotate(folder: Path, *, keep: int | None, protected: Iterable[int]) -> None:
    """Remove the oldest checkpoints, except the newest and the protected ones."""
    present = checkpoints(folder)
    if keep is not None and keep > 0:
        removable = [path for step, path in present[:-1] if step not in protected]
        for path in removable[: max(0, len(present) - keep)]:
            remove_folder(path)
