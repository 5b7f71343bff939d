"""Model threads with one core each, and the queues from which they take batches."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sentemb.encoding.rows import ReadyTexts, RowEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.serving.http import Problem
from sentemb.serving.metrics import Metrics

Priority = Literal["interactive", "bulk"]
"""`interactive`: a few short texts that somebody waits for. `bulk`: everything else."""
Matrix = NDArray[np.float32]

_BATCH_TOKENS = 1024  # larger batches are hardly faster
_PATIENCE = 1.0  # seconds after which a bulk request goes before interactive ones
_SMOOTHING = 0.1  # of the speed that Retry-After is computed from


@dataclass(eq=False)
class Job:
    """Prepared texts of one request, which `source` computes."""

    source: RowEncoder
    ready: ReadyTexts
    priority: Priority
    since: float  # when it was queued, or when some of it was last computed
    future: asyncio.Future[Matrix]
    left: int  # rows that have no vectors yet
    dropped: bool = False
    _vectors: Matrix | None = None
    _rows: dict[int, list[int]] = field(default_factory=dict)  # waiting rows by length

    def __post_init__(self) -> None:
        for row, length in enumerate(self.ready.lengths.tolist()):
            self._rows.setdefault(length, []).append(row)

    @property
    def longest(self) -> int | None:
        """The greatest length of a waiting row; None if no row is waiting."""
        return max(self._rows, default=None)

    def take(self, length: int, limit: int) -> NDArray[np.intp]:
        """Take up to `limit` waiting rows of a length."""
        waiting = self._rows.pop(length, [])
        if waiting[limit:]:
            self._rows[length] = waiting[limit:]
        return np.array(waiting[:limit], dtype=np.intp)

    def accept(self, rows: NDArray[np.intp], vectors: Matrix) -> None:
        """Store the vectors of some rows, and deliver all vectors once they are complete."""
        if self._vectors is None:
            self._vectors = np.empty((len(self.ready.lengths), vectors.shape[1]), dtype=np.float32)
        self._vectors[rows] = vectors
        self.left -= len(rows)
        if self.left == 0 and not self.dropped:
            self._settle(self.future.set_result, self._vectors)

    def fail(self, error: Exception) -> None:
        """Deliver an error, unless the job has been dropped."""
        if not self.dropped:
            self.dropped = True
            self._settle(self.future.set_exception, error)

    def _settle(self, settle: Callable[[Any], None], result: Any) -> None:
        loop = self.future.get_loop()
        loop.call_soon_threadsafe(lambda: None if self.future.done() else settle(result))


class Batch(NamedTuple):
    """Rows of one length that are computed together."""

    source: RowEncoder
    parts: list[tuple[Job, NDArray[np.intp]]]
    length: int
    priority: Priority
    alone: bool = False  # whether it is a single text, and nothing else is computed or waits


class Queues:
    """The jobs with waiting rows, in the order of arrival. Not thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[Priority, list[Job]] = {"interactive": [], "bulk": []}

    @property
    def is_empty(self) -> bool:
        """True if no job is waiting."""
        return not any(self._jobs.values())

    def add(self, job: Job) -> None:
        """Queue a job."""
        self._jobs[job.priority].append(job)

    def drop(self, job: Job) -> None:
        """Remove a job; rows that are being computed are discarded."""
        job.dropped = True
        if job in self._jobs[job.priority]:
            self._jobs[job.priority].remove(job)

    def take(self, now: float, *, only: Priority | None = None) -> Batch | None:
        """Take the longest rows of the first job, and rows of the same length from later jobs."""
        jobs = self._jobs[only or self._next(now)]
        if not jobs:
            return None
        first = jobs[0]
        length = first.longest
        assert length is not None  # a job leaves its queue with its last row
        room = max(1, _BATCH_TOKENS // max(1, length)) if first.source.by_length else 1
        parts: list[tuple[Job, NDArray[np.intp]]] = []
        for job in jobs:
            if room and job.source is first.source and len(rows := job.take(length, room)):
                parts.append((job, rows))
                job.since = now
                room -= len(rows)
        jobs[:] = [job for job in jobs if job.longest is not None]
        return Batch(first.source, parts, length, first.priority)

    def _next(self, now: float) -> Priority:
        interactive, bulk = self._jobs["interactive"], self._jobs["bulk"]
        starving = bool(bulk) and now - bulk[0].since > _PATIENCE
        return "interactive" if interactive and not starving else "bulk"


class Scheduler:
    """Computes what requests wait for, with as many threads as torch has by default."""

    def __init__(self, *, workers: int | None, max_waiting: int, metrics: Metrics) -> None:
        self._workers = workers or torch.get_num_threads()
        self._max_waiting = max_waiting
        self.metrics = metrics
        self._queues = Queues()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._running = 0  # batches
        self._interactive_is_free = True  # the thread for interactive batches
        self._speed = 10_000.0  # tokens per second, a guess until the first batch
        self._closing = False

    def start(self) -> None:
        """Start the threads. From now on torch computes each operation with one thread.

        A text alone on an idle server has all of them, where this does not change its vector.
        """
        torch.set_num_threads(1)
        names = {f"model-{number}": False for number in range(self._workers)}
        # It shares the cores with the others, so that nobody waits for the end of a bulk batch.
        names["model-interactive"] = True
        self._threads = [
            threading.Thread(target=self._work, args=(only_interactive,), name=name, daemon=True)
            for name, only_interactive in names.items()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish what is queued and stop the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def reserve(self, tokens: int) -> Iterator[None]:
        """Reserve room for the tokens of a request until it is answered, or raise a `Problem` (429)."""
        with self._changed:
            # If nothing waits, a request of any size is accepted, because it would never fit better.
            if self._waiting and self._waiting + tokens > self._max_waiting:
                seconds = math.ceil(min(60.0, max(1.0, self._waiting / (2 * self._speed))))
                self.metrics.refused.inc()
                reason = f"{self._waiting:,} tokens are already waiting; try again in {seconds} s"
                raise Problem(429, reason, retry_after=seconds)
            self._waiting += tokens
            self.metrics.waiting.set(self._waiting)
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= tokens
                self.metrics.waiting.set(self._waiting)

    async def compute(self, source: RowEncoder, ready: ReadyTexts, priority: Priority) -> Matrix:
        """Queue texts and wait for their vectors; after a cancellation, waiting rows are not computed."""
        if ready.vectors is not None:
            return ready.vectors
        future: asyncio.Future[Matrix] = asyncio.get_running_loop().create_future()
        job = Job(source, ready, priority, time.monotonic(), future, len(ready.lengths))
        with self._changed:
            if self._closing:
                raise Problem(503, "the server is stopping; try again later", retry_after=5)
            self._queues.add(job)
            self._changed.notify_all()
        try:
            return await job.future
        except asyncio.CancelledError:
            with self._changed:
                self._queues.drop(job)
            self.metrics.dropped.inc(job.left)
            raise

    def _work(self, only_interactive: bool) -> None:
        torch.set_num_threads(1)
        threads = 1
        while (batch := self._take(only_interactive)) is not None:
            start = time.monotonic()
            wanted = self._workers if batch.alone and isinstance(batch.source, SentenceEncoder) else 1
            if wanted != threads:  # torch then forgets its kernels, which takes time
                torch.set_num_threads(wanted)
                threads = wanted
            try:
                vectors = batch.source.compute([(job.ready, rows) for job, rows in batch.parts])
            except Exception as error:
                self._compute_each(batch, error)
                with self._changed:
                    self._end(only_interactive)
            else:
                ends = np.cumsum([len(rows) for _, rows in batch.parts])[:-1]
                with self._changed:
                    self._end(only_interactive)  # before the answer, which the next request may follow
                    for (job, rows), part in zip(batch.parts, np.split(vectors, ends), strict=True):
                        job.accept(rows, part)
            self._count(batch, time.monotonic() - start)

    def _end(self, only_interactive: bool) -> None:
        self._running -= 1
        self._interactive_is_free |= only_interactive

    def _take(self, only_interactive: bool) -> Batch | None:
        """Wait for the next batch; return None once the scheduler is closed and the queues are empty.

        One interactive request after another goes to the same thread, which has the weights in its cache.
        """
        with self._changed:
            while True:
                only: Priority | None = "bulk" if self._interactive_is_free else None
                batch = self._queues.take(time.monotonic(), only="interactive" if only_interactive else only)
                if batch is not None:
                    self._running += 1
                    if only_interactive:
                        self._interactive_is_free = False
                        self._changed.notify_all()
                    single = sum(len(rows) for _, rows in batch.parts) == 1
                    return batch._replace(alone=single and self._running == 1 and self._queues.is_empty)
                if self._closing:
                    return None
                self._changed.wait()

    def _compute_each(self, batch: Batch, error: Exception) -> None:
        """Compute each request alone, so that a text that cannot be encoded fails only its own request."""
        for job, rows in batch.parts:
            try:
                if len(batch.parts) == 1:
                    raise error
                vectors = batch.source.compute([(job.ready, rows)])
            except Exception as reason:
                with self._changed:
                    job.fail(reason)
                    self._queues.drop(job)
            else:
                with self._changed:
                    job.accept(rows, vectors)

    def _count(self, batch: Batch, seconds: float) -> None:
        texts = sum(len(rows) for _, rows in batch.parts)
        with self._changed:
            speed = self._workers * batch.length * texts / max(seconds, 1e-6)
            self._speed += _SMOOTHING * (speed - self._speed)
        self.metrics.batch_tokens.labels(batch.priority).observe(batch.length * texts)
        self.metrics.batch_texts.labels(batch.priority).inc(texts)
        self.metrics.busy.labels(batch.priority).inc(seconds)
