"""The processes of one training: one, or several that torchrun or accelerate started, which share batches."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import gather_object

from sentemb.errors import InputError, ReportedError

Result = TypeVar("Result")


def process_state() -> PartialState:
    """Return which process this is, and how many there are."""
    # Without the flag, processes on a machine without an accelerator do not find each other.
    state = PartialState(cpu=not torch.accelerator.is_available())
    _part_at_exit()
    return state


@cache
def _part_at_exit() -> None:
    """Threads of a group that is still there when the interpreter is gone abort the process now and then."""

    def part() -> None:
        gc.collect()  # a wrapped model that is left over holds the group
        PartialState().destroy_process_group()

    atexit.register(part)


def refuse_several(what: str) -> None:
    """Raise InputError if several processes were started for what one does."""
    if (count := process_state().num_processes) > 1:
        raise InputError(
            f"{what} runs in a single process, but {count} were started", "start it without torchrun"
        )


def on_main(action: Callable[[], object]) -> None:
    """Run an action on the first process only; an error there ends all of them."""
    on_all(lambda: action() if process_state().is_main_process else None)


def on_all(action: Callable[[], Result]) -> Result:
    """Run an action on every process; an error on any of them ends all, and the first reports it."""
    state = process_state()
    if state.num_processes == 1:
        return action()
    problem: Exception | None = None
    try:
        result = action()
    except (InputError, OSError) as error:
        problem = error
    texts: list[str | None] = gather_object([None if problem is None else str(problem)])
    failed = [(rank, text) for rank, text in enumerate(texts) if text is not None]
    if not failed:
        return result
    if not state.is_main_process:
        raise ReportedError(str(failed[0][1]))
    raise problem or InputError(f"process {failed[0][0]}: {failed[0][1]}")


def share_of(rows: int, rank: int, world_size: int) -> slice:
    """Return which of a batch's rows are a rank's."""
    return slice(rows * rank // world_size, rows * (rank + 1) // world_size)


def collate_share(collate: Callable[[list[Any]], Any], rank: int, world_size: int, rows: list[Any]) -> Any:
    """Collate a rank's rows of a batch; one that cannot be divided is every rank's."""
    return collate(rows if len(rows) < world_size else rows[share_of(len(rows), rank, world_size)])
