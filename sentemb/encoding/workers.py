"""Workers that may die: the tasks of one that died are retried, and results come in the order of the tasks.

`Workers` are processes of this machine, `RayWorkers` in `cluster.py` actors of a Ray cluster.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from sentemb.errors import InputError

Task = Any
Work = Callable[[Task], Any]
Make = Callable[[int], Work]
"""Called once in every worker, with its number of threads; returns the function that does a task."""
_TRIES = 3
# A node takes every task that it works on with it, and mostly none of them is why it died. This limit still
# ends a task that kills one machine after the other.
_NODES = 10
_PATIENCE = 30.0  # seconds without a worker after which the user learns what the command waits for


_Numbered = tuple[int, Task]
_work: Work  # of this process, if it is a worker


class Runner(Protocol):
    """What does tasks."""

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Do tasks, of which at most twice as many as there are workers are held at a time.

        Yields:
            Their results, in the order of the tasks.

        Raises:
            InputError: A task cannot be done, or its worker died too often.
        """


class Pool(Protocol):
    """What starts workers, and ends them with its context."""

    def __call__(self, make: Make, *, say: Callable[[str], None]) -> AbstractContextManager[Runner]:
        """Start workers; `say` reports every task that is retried, and why."""


class Crash(NamedTuple):
    """Why a worker died.

    Attributes:
        reason: The signal, exit code or message.
        node: Whether its whole machine was lost.
    """

    reason: str
    node: bool = False


class Worker(Protocol):
    """One process or actor."""

    def load(self) -> Future[None]:
        """Prepare the work, which loads a model."""

    def submit(self, task: Task) -> Future[Any]:
        """Start a task."""

    def crash(self, error: BaseException) -> Crash | None:
        """Return why the worker died, or None if the error is one of its task."""

    def stop(self) -> None:
        """End the worker, even if it is busy."""


class Crew:
    """Some workers, each of which is replaced when it dies; see `Runner`.

    Args:
        start: Starts a worker.
        count: The number of workers.
        say: Called with a message for every task that is retried.
        waiting: What the command waits for while no worker has started.
    """

    def __init__(
        self, start: Callable[[], Worker], count: int, *, say: Callable[[str], None], waiting: str = ""
    ) -> None:
        self._start, self._count, self._say, self._waiting = start, count, say, waiting
        self._busy: dict[Future[Any], tuple[Worker, _Numbered | None]] = {}  # None while a worker loads
        self._idle: list[Worker] = []
        self._todo: deque[_Numbered] = deque()
        self._done: dict[int, Any] = {}
        self._deaths: Counter[tuple[int | None, bool]] = Counter()

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Do tasks; see `Runner`."""
        source, taken, following = enumerate(tasks), 0, 0
        for _ in range(self._count):
            self._add_worker()
        while True:
            self._todo += itertools.islice(source, 2 * self._count - (taken - following))
            taken = max([taken, *(number + 1 for number, _ in self._todo)])
            if taken == following:
                return
            while self._idle and self._todo:
                worker, work = self._idle.pop(), self._todo.popleft()
                self._busy[worker.submit(work[1])] = worker, work
            for future in self._completed():
                self._take(future)
            while following in self._done:
                yield self._done.pop(following)
                following += 1

    def stop(self) -> None:
        """End all workers."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.stop()

    def _add_worker(self) -> None:
        worker = self._start()
        self._busy[worker.load()] = worker, None

    def _completed(self) -> set[Future[Any]]:
        completed, _ = wait(self._busy, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
        if not completed and self._waiting and all(work is None for _, work in self._busy.values()):
            self._say(self._waiting)
            self._waiting = ""
        return completed

    def _take(self, future: Future[Any]) -> None:
        """Note a result, or replace a worker that died."""
        worker, work = self._busy.pop(future)
        number = None if work is None else work[0]
        error = future.exception()
        if error is None:
            self._idle.append(worker)
            if number is None:
                del self._deaths[None, False]  # only failed starts in a row count
            else:
                self._done[number] = future.result()
            return
        try:
            crash = worker.crash(error)
        finally:
            worker.stop()
        if crash is None:
            raise error
        self._deaths[number, crash.node] += 1
        self._check_deaths(number, crash)
        self._add_worker()
        if work is not None:
            lost = "a node was lost" if crash.node else "a worker stopped"
            self._say(f"{lost} ({crash.reason}); retrying shard {work[0] + 1}")
            self._todo.appendleft(work)

    def _check_deaths(self, number: int | None, crash: Crash) -> None:
        """Raise InputError if a task has killed too many workers or nodes, or if none starts."""
        deaths, shard = self._deaths[number, crash.node], "" if number is None else f"shard {number + 1}"
        if crash.node and shard and deaths == _NODES:
            raise InputError(
                f"{_NODES} nodes were lost while they worked on {shard} (the last time: {crash.reason})",
                "check the nodes, or use a smaller --shard-size",
            )
        if crash.node or deaths < _TRIES:
            return
        if not shard:
            raise InputError(
                f"{_TRIES} workers stopped while they loaded the model ({crash.reason})",
                "use fewer --workers",
            )
        raise InputError(
            f"a worker stopped {_TRIES} times on {shard} (the last time with {crash.reason})",
            "provide more memory, or use fewer --workers or a smaller --shard-size",
        )


def local_pool(count: int) -> Pool | None:
    """Return a pool of processes; None for a single one, which is this process."""
    return None if count == 1 else functools.partial(Workers, count=count)


class Workers:
    """Runs tasks in processes that share the cores; see `Runner`.

    Args:
        make: Called once in every process.
        count: The number of processes.
        say: Called with a message for every task that is retried.
    """

    def __init__(self, make: Make, *, count: int, say: Callable[[str], None]) -> None:
        threads = max(1, (os.cpu_count() or 1) // count)
        self._crew = Crew(functools.partial(_Process, functools.partial(make, threads)), count, say=say)

    def __enter__(self) -> Crew:
        return self._crew

    def __exit__(self, *_: object) -> None:
        self._crew.stop()


class _Process:
    """An executor of one process, so that its end tells which task was lost."""

    def __init__(self, make: Callable[[], Work]) -> None:
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(1, context, initializer=_initialize)
        others = {*multiprocessing.active_children()}
        self._loaded = self._executor.submit(_load, make)  # starts the process
        self._process, *_ = {*multiprocessing.active_children()} - others

    def load(self) -> Future[None]:
        return self._loaded

    def submit(self, task: Task) -> Future[Any]:
        return self._executor.submit(_do, task)

    def crash(self, error: BaseException) -> Crash | None:
        if not isinstance(error, BrokenProcessPool):
            return None
        self._process.join()
        code = self._process.exitcode
        return Crash(f"signal {-code}" if code is not None and code < 0 else f"exit code {code}")

    def stop(self) -> None:
        self._process.terminate()
        self._executor.shutdown()


def _initialize() -> None:
    """Prepare a process: the parent ends its workers, which do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _load(make: Callable[[], Work]) -> None:
    global _work
    _work = make()


def _do(task: Task) -> Any:
    return _work(task)
