"""Worker processes that run tasks and end with the process that started them."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from sentemb._machine import cores
from sentemb.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    run: Callable[[Task], Result], tasks: Iterable[Task], jobs: int
) -> Generator[tuple[Task, Result, float], None, None]:
    """Run tasks in this process, or in several that share the cores, and yield results with seconds.

    Two processes of one thread take less time than one of two threads if batches are small. The processes are
    spawned, because torch does not survive a fork. Each holds one end of a pipe, and ends when the other end
    is closed: by this function, or by the system when this process dies.
    """
    if jobs == 1:
        yield from ((task, *_timed(run, task)) for task in tasks)
        return
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    # Temporary files of a killed process are removed with the folder.
    scratch = tempfile.TemporaryDirectory(prefix="sentemb-study-", ignore_cleanup_errors=True)
    arguments = (theirs, max(1, cores() // jobs), scratch.name)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=arguments)
    waiting = iter(tasks)
    running: dict[Future[tuple[Result, float]], Task] = {}
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)) is not None:
                running[pool.submit(_timed, run, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), *future.result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process was killed, probably because the machine ran out of memory",
            "run the same command with fewer --jobs; finished trials are kept",
        ) from None
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        scratch.cleanup()


def _timed(run: Callable[[Task], Result], task: Task) -> tuple[Result, float]:
    started = time.perf_counter()
    result = run(task)
    return result, time.perf_counter() - started


def _start(pipe: Connection, threads: int, scratch: str) -> None:
    import torch

    tempfile.tempdir = scratch
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what Ctrl-C does
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    pipe.poll(None)  # returns when the other end is closed, because nothing is ever sent
    os._exit(1)
