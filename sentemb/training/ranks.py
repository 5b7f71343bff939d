"""The processes of one training: one, or several that torchrun or accelerate started."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from functools import cache

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from sentemb.errors import InputError


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
        raise problem[0]
