"""Waiting for what another process or thread does, however busy the machine is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

Value = TypeVar("Value")


def wait_for(
    condition: Callable[[], Value],
    *,
    alive: Callable[[], object] = lambda: True,
    pause: Callable[[float], object] = time.sleep,
) -> Value:
    """Return the first true value of a condition.

    There is no deadline, which a busy machine would miss. A test that hangs is ended by pytest, after its
    `faulthandler_timeout`.

    Args:
        condition: What must come true.
        alive: Whether that which makes it true still runs; the test fails once it has ended in vain.
        pause: Called between two attempts with seconds.

    Returns:
        What the condition returned.
    """
    while True:
        running = alive()  # before the condition: what it did last counts
        if found := condition():
            return found
        assert running, "ended before what is waited for"
        pause(0.005)


def stay() -> NoReturn:
    """Wait to be killed."""
    while True:
        signal.pause()
