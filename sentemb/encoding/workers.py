"""Workers that may die: their tasks are retried, and results come in the order of the tasks.

`local_workers` are processes of this machine, `ray_workers` in `cluster.py` actors of a Ray cluster.
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
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from sentemb.errors import InputError

Task = Any
Work = Callable[[Task], Any]
Make = Callable[[int], Work]
"""Called once in every worker, with its number of threads; returns the function that does a task."""
_TRIES = 3
# A node takes all its tasks with it, and mostly none of them is why it died. This limit still ends a task
# that kills one machine after the other.
_NODES = 10
_PATIENCE = 30.0  # seconds without a worker after which the user learns what the command waits for
_work: Work  # of this process, if it is a worker


class Crash(NamedTuple):
    """Why a worker died: the signal, exit code or message, and whether its whole machine was lost."""

    reason: str
    node: bool = False


class Worker(Protocol):
    """One process or actor."""

    def load(self) -> Future[None]: ...  # noqa: D102  # prepares the work, which loads a model
    def submit(self, task: Task) -> Future[Any]: ...  # noqa: D102
    def crash(self, error: BaseException) -> Crash | None:
        """Return why the worker died, or None if the error is one of its task."""

    def stop(self) -> None: ...  # noqa: D102  # ends it, even if it is busy


class Crew:
    """Some workers, each of which is replaced when it dies; `waiting` is said while none has started."""

    def __init__(
        self, start: Callable[[], Worker], count: int, *, say: Callable[[str], None], waiting: str = ""
    ) -> None:
        self._start, self._count, self._say, self._waiting = start, count, say, waiting
        # Each with its numbered task, or None while it loads.
        self._busy: dict[Future[Any], tuple[Worker, tuple[int, Task] | None]] = {}
        self._idle: list[Worker] = []
        self._todo: deque[tuple[int, Task]] = deque()
        self._deaths: Counter[tuple[int | None, bool]] = Counter()

    def run(self, tasks: Iterator[Task]) -> Iterator[Any]:
        """Yield the results of tasks in their order; up to two tasks per worker are held at a time."""
        source, taken, following = enumerate(tasks), 0, 0
        done: dict[int, Any] = {}
        for worker in [self._start() for _ in range(self._count)]:
            self._busy[worker.load()] = worker, None
        while True:
            for task in itertools.islice(source, 2 * self._count - (taken - following)):
                self._todo.append(task)
                taken += 1
            if taken == following:
                return
            while self._idle and self._todo:
                worker, work = self._idle.pop(), self._todo.popleft()
                self._busy[worker.submit(work[1])] = worker, work
            completed, _ = wait(self._busy, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
            if not completed and self._waiting and all(work is None for _, work in self._busy.values()):
                self._say(self._waiting)
                self._waiting = ""
            for future in completed:
                self._take(future, done)
            while following in done:
                yield done.pop(following)
                following += 1

    def stop(self) -> None:
        """End all workers."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.stop()

    def _take(self, future: Future[Any], done: dict[int, Any]) -> None:
        """Note a result, or replace a worker that died."""
        worker, work = self._busy.pop(future)
        number = None if work is None else work[0]
        error = future.exception()
        if error is None:
            self._idle.append(worker)
            if number is None:
                del self._deaths[None, False]  # only failed starts in a row count
            else:
                done[number] = future.result()
            return
        try:
            crash = worker.crash(error)
        finally:
            worker.stop()
        if crash is None:
            raise error
        self._deaths[number, crash.node] += 1
        deaths = self._deaths[number, crash.node]
        if deaths >= (_NODES if crash.node else _TRIES):
            died = f"{deaths} nodes were lost" if crash.node else f"workers stopped {deaths} times"
            where = "while they loaded the model" if number is None else f"on shard {number + 1}"
            hint = "provide more memory, or use fewer --workers or a smaller --shard-size"
            raise InputError(f"{died} {where} (the last time: {crash.reason})", hint)
        worker = self._start()
        self._busy[worker.load()] = worker, None
        if work is not None:
            lost = "a node was lost" if crash.node else "a worker stopped"
            self._say(f"{lost} ({crash.reason}); retrying shard {work[0] + 1}")
            self._todo.appendleft(work)


Pool = Callable[..., AbstractContextManager[Crew]]
"""Starts workers from a `Make`, and ends them with its context; `say` reports each task that is retried."""


def local_pool(count: int) -> Pool | None:
    """Return a pool of processes; None for a single one, which is this process."""
    return None if count == 1 else functools.partial(local_workers, count=count)


@contextmanager
def local_workers(make: Make, *, count: int, say: Callable[[str], None]) -> Iterator[Crew]:
    """Start processes that share the cores; see `Pool`."""
    threads = max(1, (os.cpu_count() or 1) // count)
    crew = Crew(functools.partial(_Process, functools.partial(make, threads)), count, say=say)
    try:
        yield crew
    finally:
        crew.stop()


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
