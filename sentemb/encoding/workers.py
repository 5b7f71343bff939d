"""Processes that each work on one thing at a time; what dies with one of them is tried again by another."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sentemb.errors import InputError

Task = Any
Work = Callable[[Task], Any]
_TRIES = 3


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    number: int | None = None  # of the task that it works on
    ready: bool = False


class Workers:
    """Runs tasks in processes; results come in the order of the tasks.

    Args:
        make: Called once in every process; gives the function that does a task.
        count: How many processes.
        say: Told of every task that is tried again, and why.

    A task may fail by `InputError`, which ends everything. One whose process dies is tried again, three times
    in all: a text that exhausts the memory would otherwise kill one process after the other.
    """

    def __init__(self, make: Callable[[], Work], *, count: int, say: Callable[[str], None]) -> None:
        self._make, self._count, self._say = make, count, say
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        self._accepted = 0  # tasks
        self._pending: dict[int, Task] = {}
        self._waiting: deque[int] = deque()
        self._done: dict[int, Any] = {}
        self._tries: Counter[int] = Counter()

    def __enter__(self) -> Workers:
        self._workers = [self._start() for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Do tasks, of which no more than twice as many as there are processes are held at a time.

        Yields:
            Their results.

        Raises:
            InputError: A task cannot be done, or its process died three times.
        """
        more = True
        following = 0
        while True:
            while more and len(self._pending) + len(self._done) < 2 * self._count:
                more = self._accept(tasks)
            if not more and not self._pending and not self._done:
                return
            self._hand_out()
            wait([one for worker in self._workers for one in (worker.pipe, worker.process.sentinel)])
            for worker in list(self._workers):
                self._hear(worker)
            while following in self._done:
                yield self._done.pop(following)
                following += 1

    def _accept(self, tasks: Iterator[Task]) -> bool:
        """Take a task, if there is one more."""
        for task in tasks:
            self._pending[self._accepted] = task
            self._waiting.append(self._accepted)
            self._accepted += 1
            return True
        return False

    def _hand_out(self) -> None:
        for worker in self._workers:
            if worker.ready and worker.number is None and self._waiting:
                worker.number = self._waiting.popleft()
                # Should it have died meanwhile, this is seen when it is heard.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    worker.pipe.send(self._pending[worker.number])

    def _hear(self, worker: _Worker) -> None:
        """Take what a worker has to say, if anything."""
        kind, value = self._answer_of(worker)
        if kind == "dead":
            self._replace(worker, value)
        elif kind == "error":
            raise InputError(*value)
        elif kind == "fault":
            raise RuntimeError(f"a worker failed:\n{value}")
        elif kind == "ready":
            worker.ready = True
        elif kind == "done":
            assert worker.number is not None  # it had a task
            self._done[worker.number] = value
            del self._pending[worker.number]
            worker.number = None

    def _answer_of(self, worker: _Worker) -> tuple[str, Any]:
        try:
            if worker.pipe.poll():
                kind, value = worker.pipe.recv()
                return kind, value
        except (EOFError, OSError):
            worker.process.join()
        return ("busy", None) if worker.process.is_alive() else ("dead", worker.process.exitcode)

    def _replace(self, worker: _Worker, code: int | None) -> None:
        """Put another process in the place of a dead one, and its task first in the row."""
        worker.pipe.close()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts == _TRIES:
                raise InputError(
                    f"{_TRIES} workers ended while they loaded the model ({how})", "take --workers 1"
                )
        self._workers[self._workers.index(worker)] = self._start()
        if worker.number is None:
            return
        self._tries[worker.number] += 1
        if self._tries[worker.number] == _TRIES:
            raise InputError(
                f"a worker ended {_TRIES} times on shard {worker.number + 1} (the last time by {how})",
                "give it more memory, or take fewer --workers or a smaller --shard-size",
            )
        self._say(f"a worker ended ({how}); shard {worker.number + 1} is tried again")
        self._waiting.appendleft(worker.number)

    def _start(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._make, there), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)


def _serve(make: Callable[[], Work], pipe: Connection) -> None:
    """Do what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    parent = os.getppid()
    try:
        work = make()
        pipe.send(("ready", None))
        while os.getppid() == parent:
            pipe.send(("done", work(pipe.recv())))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except InputError as error:
        pipe.send(("error", (error.message, error.hint)))
    except Exception:
        pipe.send(("fault", traceback.format_exc()))
