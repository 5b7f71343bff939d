"""Threads: how many compute what, so that bits do not depend on it and two commands can share the cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

# torch and threadpoolctl are imported late: `share_cores` must come before torch.
_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def share_cores() -> None:
    """Let OpenMP's threads sleep soon when they wait, unless the environment says how they wait.

    By default they spin for some milliseconds, which is time taken from other processes: two trainings on two
    cores ran at a fifth to a third of their speed each. With this they share the cores, and alone a training
    is as fast as before. It takes effect only before torch is imported.
    """
    if not any(name in os.environ for name in _WAITING):
        os.environ["GOMP_SPINCOUNT"] = "1000"


@contextmanager
def one_thread_each() -> Iterator[ThreadPoolExecutor]:
    """Workers, as many as torch has threads, whose products have one thread each.

    Small products gain little from being divided among cores, while pieces of work that share nothing keep
    every core busy. What is left to do when an exception leaves the block is dropped.
    """
    import torch

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@contextmanager
def at_most_threads(most: int) -> Iterator[None]:
    """So many threads at most for the products of this thread."""
    import torch

    threads = torch.get_num_threads()
    if threads <= most:
        yield
        return
    torch.set_num_threads(most)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def one_thread() -> AbstractContextManager[None]:
    """One thread for the products of this thread."""
    return at_most_threads(1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Compute NumPy's products and decompositions on one thread; also a decorator.

    With several, OpenBLAS divides a sum among them, so that its last bits depend on their number.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
