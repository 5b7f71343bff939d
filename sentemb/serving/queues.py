"""Which texts are computed next: interactive requests before bulk ones, those of one length together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sentemb.encoding.rows import ReadyTexts, RowEncoder

Priority = Literal["interactive", "bulk"]
"""`interactive`: a few short texts that somebody waits for. `bulk`: all else."""

TOKENS_IN_BATCH = 1024
"""Tokens in a batch: larger ones are hardly faster."""
PATIENCE = 1.0
"""Seconds after which a bulk request of which nothing was computed goes before interactive ones."""


@dataclass(eq=False)
class Job:
    """Texts of one request that are ready to be computed.

    Attributes:
        source: What computes them.
        ready: The texts.
        priority: Its queue.
        since: When it was queued, or something of it was computed last.
        vectors: Their vectors, once there are any.
        left: How many texts have none yet.
        dropped: Nobody wants them any more.
    """

    source: RowEncoder
    ready: ReadyTexts
    priority: Priority
    since: float
    vectors: NDArray[np.float32] | None = None
    left: int = 0
    dropped: bool = False
    _rows: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = len(self.ready.lengths)
        for row, length in enumerate(self.ready.lengths.tolist()):
            self._rows.setdefault(length, []).append(row)

    @property
    def longest(self) -> int | None:
        """The greatest length of which rows wait; None where none does."""
        return max(self._rows, default=None)

    def take(self, length: int, most: int) -> NDArray[np.intp]:
        """At most so many of the waiting rows of a length."""
        waiting = self._rows.get(length, [])
        taken, rest = waiting[:most], waiting[most:]
        if rest:
            self._rows[length] = rest
        else:
            self._rows.pop(length, None)
        return np.array(taken, dtype=np.intp)

    def accept(self, rows: NDArray[np.intp], vectors: NDArray[np.float32]) -> bool:
        """Keep the vectors of some rows, and say whether that was all."""
        if self.vectors is None:
            self.vectors = np.empty((len(self.ready.lengths), vectors.shape[1]), dtype=np.float32)
        self.vectors[rows] = vectors
        self.left -= len(rows)
        return self.left == 0


class Batch(NamedTuple):
    """What is computed at one time."""

    source: RowEncoder
    parts: list[tuple[Job, NDArray[np.intp]]]
    length: int
    priority: Priority

    @property
    def tokens(self) -> int:
        """How many tokens it has."""
        return self.length * sum(len(rows) for _, rows in self.parts)


class Queues:
    """The jobs of which rows wait, in the order in which they came. Not safe from several threads."""

    def __init__(self, *, tokens: int = TOKENS_IN_BATCH, patience: float = PATIENCE) -> None:
        self._tokens = tokens
        self._patience = patience
        self._jobs: dict[Priority, list[Job]] = {"interactive": [], "bulk": []}

    def __len__(self) -> int:
        return sum(map(len, self._jobs.values()))

    def __iter__(self) -> Iterator[Job]:
        for jobs in self._jobs.values():
            yield from jobs

    def add(self, job: Job) -> None:
        """Queue a job."""
        self._jobs[job.priority].append(job)

    def drop(self, job: Job) -> None:
        """Forget a job; what is being computed of it is computed for nothing."""
        job.dropped = True
        if job in self._jobs[job.priority]:
            self._jobs[job.priority].remove(job)

    def take(self, now: float, *, only_interactive: bool = False) -> Batch | None:
        """The next batch: the longest waiting texts of the first job, with those of others of that length."""
        jobs = self._jobs["interactive" if only_interactive else self._next(now)]
        if not jobs:
            return None
        first = jobs[0]
        length = first.longest
        assert length is not None  # a job leaves its queue with its last row
        room = max(1, self._tokens // max(1, length)) if first.source.by_length else 1
        parts: list[tuple[Job, NDArray[np.intp]]] = []
        for job in jobs:
            if room == 0:
                break
            if job.source is first.source and len(rows := job.take(length, room)):
                parts.append((job, rows))
                job.since = now
                room -= len(rows)
        jobs[:] = [job for job in jobs if job.longest is not None]
        return Batch(first.source, parts, length, first.priority)

    def _next(self, now: float) -> Priority:
        interactive, bulk = self._jobs["interactive"], self._jobs["bulk"]
        starving = bool(bulk) and now - bulk[0].since > self._patience
        return "interactive" if interactive and not starving else "bulk"
