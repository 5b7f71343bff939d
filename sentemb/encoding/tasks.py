"""Tasks for workers that may die: done in any order, given back in theirs, tried again and not for ever."""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from sentemb.errors import InputError

Task = Any
Work = Callable[[Task], Any]
Make = Callable[[int], Work]
"""Called once in every worker, with the number of threads it may use; gives the function that does a task."""
Answer = tuple[Literal["done", "error", "system", "fault"], Any]
"""What a worker says of what it tried.

The result, message and hint of an `InputError`, number, words and file of an `OSError`, or a traceback.
"""
_TRIES = 3
# A node takes every task that it works on with it, and mostly none of them is why it died. So many chances
# still end a task that kills one machine after the other.
_NODES = 10


class Runner(Protocol):
    """What does tasks."""

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Do tasks, of which a few are held at a time.

        Yields:
            Their results, in the order of the tasks.

        Raises:
            InputError: A task cannot be done, or what worked on it died too often.
        """


class Pool(Protocol):
    """What starts workers, and ends them with its context."""

    def __call__(self, make: Make, *, say: Callable[[str], None]) -> AbstractContextManager[Runner]:
        """Start them; `say` is told of every task that is tried again, and why."""


class Tasks:
    """The book of what is waiting, under way and done.

    Args:
        source: The tasks.
        held: How many are held at a time.
        say: Told of every task that is tried again, and why.

    A task whose worker dies is tried again, three times in all: a text that exhausts the memory would
    otherwise kill one worker after the other.
    """

    def __init__(self, source: Iterator[Task], *, held: int, say: Callable[[str], None]) -> None:
        self._source, self._held, self._say = enumerate(source), held, say
        self._pending: dict[int, Task] = {}
        self._waiting: deque[int] = deque()
        self._done: dict[int, Any] = {}
        self._following = 0
        self._deaths: Counter[int] = Counter()
        self._nodes: Counter[int] = Counter()
        self._failed_starts = 0

    def left(self) -> bool:
        """Whether anything is left to do; takes more from the source, up to what is held."""
        while len(self._pending) + len(self._done) < self._held:
            number, task = next(self._source, (None, None))
            if number is None:
                break
            self._pending[number] = task
            self._waiting.append(number)
        return bool(self._pending or self._done)

    def take(self) -> tuple[int, Task] | None:
        """The next task to work on, with its number."""
        if not self._waiting:
            return None
        number = self._waiting.popleft()
        return number, self._pending[number]

    def hear(self, number: int | None, answer: Answer) -> None:
        """Note what a worker says of a task, or of its start where there is no number.

        Raises:
            InputError: It is a user error.
            OSError: The system refused something, such as more space on a full disk.
            RuntimeError: It is a bug.
        """
        kind, value = answer
        if kind == "error":
            raise InputError(*value)
        if kind == "system":
            raise OSError(*value)
        if kind == "fault":
            raise RuntimeError(f"a worker failed:\n{value}")
        if number is None:
            self._failed_starts = 0
        else:
            self._done[number] = value
            del self._pending[number]

    def died(self, number: int | None, how: str) -> None:
        """Note that a worker died on a task, or before it was ready; the task is the next to be tried.

        Raises:
            InputError: It has been tried often enough.
        """
        if number is None:
            self._failed_starts += 1
            if self._failed_starts == _TRIES:
                raise InputError(
                    f"{_TRIES} workers stopped while they loaded the model ({how})", "use fewer --workers"
                )
            return
        self._deaths[number] += 1
        if self._deaths[number] == _TRIES:
            raise InputError(
                f"a worker stopped {_TRIES} times on shard {number + 1} (the last time with {how})",
                "provide more memory, or use fewer --workers or a smaller --shard-size",
            )
        self._again(number, f"a worker stopped ({how})")

    def lost(self, number: int | None, how: str) -> None:
        """Note that a worker went with its node: this hardly speaks against the task.

        Raises:
            InputError: Too many nodes died on it.
        """
        if number is None:
            return
        self._nodes[number] += 1
        if self._nodes[number] == _NODES:
            raise InputError(
                f"{_NODES} nodes were lost while they worked on shard {number + 1} (the last time: {how})",
                "check the nodes, or use a smaller --shard-size",
            )
        self._again(number, f"a node was lost ({how})")

    def results(self) -> Iterator[Any]:
        """The results whose turn it is."""
        while self._following in self._done:
            yield self._done.pop(self._following)
            self._following += 1

    def _again(self, number: int, why: str) -> None:
        self._say(f"{why}; retrying shard {number + 1}")
        self._waiting.appendleft(number)


def attempt(do: Callable[[], Any]) -> Answer:
    """Do something in a worker, so that what goes wrong can be told."""
    try:
        return "done", do()
    except InputError as error:
        return "error", (error.message, error.hint)
    except OSError as error:
        return "system", (error.errno, error.strerror or str(error), error.filename)
    except Exception:
        return "fault", traceback.format_exc()
