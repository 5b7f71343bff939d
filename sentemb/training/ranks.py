"""The processes of one training: one, or several that torchrun or accelerate started."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from sentemb.errors import InputError, ReportedError

Result = TypeVar("Result")


def ranks() -> PartialState:
    """Which process this is, and how many there are."""
    # Without the flag, processes on a machine without an accelerator do not find each other.
    state = PartialState(cpu=not torch.accelerator.is_available())
    _part_at_exit()
    return state


@cache
def _part_at_exit() -> None:
    """Threads of a group that is still there when the interpreter is gone abort the process now and then."""
    atexit.register(_part)


def _part() -> None:
    gc.collect()  # a wrapped model that is left over holds the group
    PartialState().destroy_process_group()


def refuse_several(what: str) -> None:
    """Refuse what one process does, on all that were started."""
    if (count := ranks().num_processes) > 1:
        raise InputError(
            f"{what} runs in a single process, but {count} were started", "start it without torchrun"
        )


def on_main(action: Callable[[], None]) -> None:
    """Do something on the first process only; an error there ends all of them."""
    problem: list[Exception | None] = [None]
    if ranks().is_main_process:
        try:
            action()
        except (InputError, OSError) as error:
            problem[0] = error
    broadcast_object_list(problem)
    if problem[0] is not None:
        raise problem[0] if ranks().is_main_process else ReportedError(str(problem[0]))


def on_all(action: Callable[[], Result]) -> Result:
    """Do something on every process; an error on any of them ends all, and the first reports it."""
    state = ranks()
    if state.num_processes == 1:
        return action()
    problem: Exception | None = None
    try:
        result = action()
    except (InputError, OSError) as error:
        problem = error
    told: list[str | None] = gather_object([None if problem is None else str(problem)])
    failed = [(rank, text) for rank, text in enumerate(told) if text is not None]
    if not failed:
        return result
    if not state.is_main_process:
        raise ReportedError(str(failed[0][1]))
    raise problem or InputError(f"process {failed[0][0]}: {failed[0][1]}")
