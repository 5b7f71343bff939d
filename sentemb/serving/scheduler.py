"""Model threads with one core each, which take batch after batch, and one more for those who wait."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from sentemb.encoding.encoder import Vectors
from sentemb.encoding.rows import ReadyTexts, RowEncoder
from sentemb.serving.metrics import Metrics
from sentemb.serving.problems import Problem
from sentemb.serving.queues import Batch, Job, Priority, Queues

_SMOOTHING = 0.1  # of the speed that tells a client when to come back


class Scheduler:
    """Computes what requests wait for.

    Args:
        workers: Model threads; None takes as many as torch has.
        max_waiting: Tokens that may wait.
        metrics: Where batches are counted.
    """

    def __init__(self, *, workers: int | None, max_waiting: int, metrics: Metrics) -> None:
        self._workers = workers or torch.get_num_threads()
        self._max_waiting = max_waiting
        self._metrics = metrics
        self._queues = Queues()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._speed = 10_000.0  # tokens per second, a guess until there is a batch
        self._closing = False
        self._done: dict[Job, tuple[asyncio.AbstractEventLoop, asyncio.Future[Vectors]]] = {}

    def start(self) -> None:
        """Start the threads. From now on operations of torch in this process have one thread each."""
        torch.set_num_threads(1)
        names = {f"model-{number}": False for number in range(self._workers)}
        # It shares the cores with what is being computed, so that nobody waits for the end of a bulk batch.
        names["model-interactive"] = True
        self._threads = [
            threading.Thread(target=self._work, args=(only_interactive,), name=name, daemon=True)
            for name, only_interactive in names.items()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish what is queued and end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def reserved(self, tokens: int) -> Iterator[None]:
        """Room for the tokens of a request until it is answered.

        Raises:
            Problem: 429, with the seconds after which there is room.
        """
        with self._changed:
            # Where nothing waits, a request of any size is taken: it would never fit better.
            if self._waiting and self._waiting + tokens > self._max_waiting:
                seconds = math.ceil(min(60.0, max(1.0, self._waiting / (2 * self._speed))))
                self._metrics.refused.inc()
                raise Problem(
                    429,
                    f"{self._waiting:,} tokens are already waiting; try again in {seconds} s",
                    headers={"Retry-After": str(seconds)},
                )
            self._waiting += tokens
            self._metrics.waiting.set(self._waiting)
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= tokens
                self._metrics.waiting.set(self._waiting)

    async def compute(self, source: RowEncoder, ready: ReadyTexts, priority: Priority) -> Vectors:
        """Queue texts and wait for their vectors; once cancelled, those not begun are not computed."""
        if ready.vectors is not None:
            return ready.vectors
        if not len(ready.lengths):
            return np.empty((0, 0), dtype=np.float32)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Vectors] = loop.create_future()
        job = Job(source, ready, priority, time.monotonic())
        with self._changed:
            if self._closing:
                raise Problem(503, "the server is stopping; try again later", headers={"Retry-After": "5"})
            self._done[job] = loop, future
            self._queues.add(job)
            self._changed.notify_all()
        try:
            return await future
        except asyncio.CancelledError:
            with self._changed:
                self._queues.drop(job)
                self._done.pop(job, None)
            self._metrics.dropped.inc(job.left)
            raise

    def _work(self, only_interactive: bool) -> None:
        torch.set_num_threads(1)
        while (batch := self._take(only_interactive)) is not None:
            start = time.monotonic()
            try:
                # A text that cannot be encoded must not fail the requests that share its batch.
                vectors = batch.source.compute([(job.ready, rows) for job, rows in batch.parts])
            except Exception as error:
                self._compute_apart(batch, error)
            else:
                ends = np.cumsum([len(rows) for _, rows in batch.parts])[:-1]
                for (job, rows), some in zip(batch.parts, np.split(vectors, ends), strict=True):
                    self._deliver(job, rows, some)
            self._note(batch, time.monotonic() - start)

    def _take(self, only_interactive: bool) -> Batch | None:
        """The next batch, waiting for one; None when the scheduler is closed."""
        with self._changed:
            while True:
                batch = self._queues.take(time.monotonic(), only_interactive=only_interactive)
                if batch is not None or self._closing:
                    return batch
                self._changed.wait()

    def _compute_apart(self, batch: Batch, error: Exception) -> None:
        for job, rows in batch.parts:
            if len(batch.parts) == 1:
                self._fail(job, error)
                continue
            try:
                self._deliver(job, rows, batch.source.compute([(job.ready, rows)]))
            except Exception as own:
                self._fail(job, own)

    def _deliver(self, job: Job, rows: NDArray[np.intp], vectors: Vectors) -> None:
        with self._changed:
            if job.dropped or not job.accept(rows, vectors):
                return
            loop, future = self._done.pop(job)
        loop.call_soon_threadsafe(_settle, future, job.vectors, None)

    def _fail(self, job: Job, error: Exception) -> None:
        with self._changed:
            self._queues.drop(job)
            waiting = self._done.pop(job, None)
        if waiting is not None:
            loop, future = waiting
            loop.call_soon_threadsafe(_settle, future, None, error)

    def _note(self, batch: Batch, seconds: float) -> None:
        with self._changed:
            speed = self._workers * batch.tokens / max(seconds, 1e-6)
            self._speed += _SMOOTHING * (speed - self._speed)
        self._metrics.batch(batch.priority, batch.tokens, sum(len(rows) for _, rows in batch.parts), seconds)


def _settle(future: asyncio.Future[Vectors], vectors: Vectors | None, error: Exception | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert vectors is not None
        future.set_result(vectors)
