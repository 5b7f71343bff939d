"""Processes that each work on one thing at a time; what dies with one of them is tried again by another."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sentemb.encoding.tasks import Answer, Make, Pool, Task, Tasks, attempt


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    number: int | None = None  # of the task that it works on
    ready: bool = False


def local_pool(count: int) -> Pool | None:
    """So many processes; None for a single one, which is this."""
    return None if count == 1 else functools.partial(Workers, count=count)


class Workers:
    """Runs tasks in processes that share the cores; see `Runner`.

    Args:
        make: Called once in every process.
        count: How many processes.
        say: Told of every task that is tried again, and why.
    """

    def __init__(self, make: Make, *, count: int, say: Callable[[str], None]) -> None:
        threads = max(1, (os.cpu_count() or 1) // count)
        self._make = functools.partial(make, threads)
        self._count, self._say = count, say
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []

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
        """Do tasks, of which no more than twice as many as there are processes are held at a time."""
        book = Tasks(tasks, held=2 * self._count, say=self._say)
        while book.left():
            self._hand_out(book)
            wait([one for worker in self._workers for one in (worker.pipe, worker.process.sentinel)])
            for worker in list(self._workers):
                self._hear(worker, book)
            yield from book.results()

    def _hand_out(self, book: Tasks) -> None:
        for worker in self._workers:
            if worker.ready and worker.number is None and (one := book.take()) is not None:
                worker.number, task = one
                # Should it have died meanwhile, this is seen when it is heard.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    worker.pipe.send(task)

    def _hear(self, worker: _Worker, book: Tasks) -> None:
        """Take what a worker has to say, if anything."""
        answer: Answer | None = None
        try:
            if worker.pipe.poll():
                answer = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
        if answer is not None:  # outside of `try`: an answer can be an OSError itself
            book.hear(worker.number, answer)
            worker.number, worker.ready = None, True
            return
        if not worker.process.is_alive():
            self._replace(worker, book)

    def _replace(self, worker: _Worker, book: Tasks) -> None:
        """Put another process in the place of a dead one."""
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = self._start()
        code = worker.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        if worker.number is not None or not worker.ready:
            book.died(worker.number, how)

    def _start(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._make, there), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)


def _serve(make: Callable[[], Callable[[Task], Any]], pipe: Connection) -> None:
    """Do what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    parent = os.getppid()
    kind, work = attempt(make)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        pipe.send((kind, None if kind == "done" else work))
        while kind == "done" and os.getppid() == parent:
            task = pipe.recv()
            pipe.send(attempt(functools.partial(work, task)))
