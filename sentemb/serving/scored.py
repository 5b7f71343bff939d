"""What scores texts or pairs of texts, behind the queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from sentemb.encoding.rows import RowEncoder
from sentemb.serving.batcher import Encoded
from sentemb.serving.metrics import Metrics
from sentemb.serving.problems import Problem
from sentemb.serving.queues import Priority
from sentemb.serving.scheduler import Scheduler
from sentemb.serving.settings import Truncate

_FEW = 8
_INPUTS_AT_ONCE = 64


class ScoredTexts:
    """A cross-encoder or a classifier that is served.

    Args:
        name: What requests call it.
        rows: What computes its scores.
        scheduler: The model threads.
        metrics: Where texts are counted.
        truncate: What becomes of long inputs where a request does not say.
    """

    def __init__(
        self, name: str, rows: RowEncoder, scheduler: Scheduler, metrics: Metrics, *, truncate: Truncate
    ) -> None:
        self.name = name
        self._rows = rows
        self._scheduler = scheduler
        self._metrics = metrics
        self._truncate = truncate

    async def score(self, inputs: Sequence[Any], *, truncate: Truncate | None, field: str) -> Encoded:
        """Score inputs, a row of the result for each.

        Args:
            inputs: Texts or pairs of texts.
            truncate: What becomes of long ones; by default what the server was started with.
            field: Where the inputs stand in the request.

        Returns:
            Scores and counts.

        Raises:
            Problem: An input is too long and must not be cut, or too much waits already.
        """
        priority: Priority = "interactive" if len(inputs) <= _FEW else "bulk"
        computing: list[asyncio.Task[Any]] = []
        readied = []
        with self._scheduler.reserved(sum(len(str(one)) for one in inputs) // 4 + 3 * len(inputs)):
            try:
                for start in range(0, len(inputs), _INPUTS_AT_ONCE):
                    some = inputs[start : start + _INPUTS_AT_ONCE]
                    ready = await asyncio.to_thread(self._rows.prepare, some)
                    if len(ready.cut) and (truncate or self._truncate) == "error":
                        raise Problem(
                            409,
                            f"input {start + ready.cut[0]} is longer than the maximum length of {self.name}; "
                            "shorten it, or "
                            'send "truncate": "truncate" to truncate it',
                            field=f"{field}.{start + ready.cut[0]}",
                        )
                    readied.append(ready)
                    work = self._scheduler.compute(self._rows, ready, priority)
                    computing.append(asyncio.ensure_future(work))
                scores = np.concatenate(await asyncio.gather(*computing))
            except BaseException:
                for task in computing:
                    task.cancel()
                await asyncio.gather(*computing, return_exceptions=True)
                raise
        encoded = Encoded(
            scores,
            np.concatenate([ready.lengths for ready in readied]),
            sum(len(ready.cut) for ready in readied),
        )
        self._metrics.texts.labels(self.name).inc(len(inputs))
        self._metrics.tokens.labels(self.name).inc(int(encoded.tokens.sum()))
        self._metrics.cut.labels(self.name).inc(encoded.cut)
        return encoded
