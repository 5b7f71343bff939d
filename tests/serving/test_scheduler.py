"""Small requests do not wait for bulk requests, and every row gets its own vector."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from sentemb.encoding import sentence
from sentemb.encoding.encoder import Vectors
from sentemb.encoding.rows import ReadyTexts, Rows
from sentemb.modules import load
from sentemb.serving.metrics import Metrics
from sentemb.serving.scheduler import Scheduler
from tests.waiting import wait_for


class Lengths:
    """An encoder whose vectors are the lengths of texts; batches of a length wait until released."""

    by_length = True

    def __init__(self, slow: int) -> None:
        self._slow = slow
        self.began, self.may_end = threading.Semaphore(0), threading.Event()

    def prepare(self, texts: Sequence[str]) -> ReadyTexts:
        return ReadyTexts(texts, np.array([len(text) for text in texts]), ())

    def compute(self, rows: Rows) -> Vectors:
        texts = [ready.texts[row] for ready, some in rows for row in some]
        if len(texts[0]) == self._slow:
            self.began.release()
            self.may_end.wait()
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def test_interactive_texts_are_computed_while_every_worker_computes_bulk() -> None:
    source = Lengths(slow=2)
    scheduler = Scheduler(workers=2, max_waiting=100, metrics=Metrics())
    bulk = source.prepare(["a", "bb"]), source.prepare(["cc"] * 1500)

    async def run() -> tuple[list[Vectors], Vectors]:
        scheduler.start()
        waiting = [asyncio.ensure_future(scheduler.compute(source, one, "bulk")) for one in bulk]
        for _ in range(2):  # both workers have a batch
            await asyncio.to_thread(source.began.acquire)
        few = await scheduler.compute(source, source.prepare(["d", "eee"]), "interactive")
        assert not any(one.done() for one in waiting)
        source.may_end.set()
        return await asyncio.gather(*waiting), few

    try:
        vectors, few = asyncio.run(run())
    finally:
        source.may_end.set()
        scheduler.close()
    np.testing.assert_array_equal(few, [[1], [3]])
    np.testing.assert_array_equal(vectors[0], [[1], [2]])
    np.testing.assert_array_equal(vectors[1], np.full((1500, 1), 2))


def test_what_is_queued_is_finished_before_the_end() -> None:
    source = Lengths(slow=2)
    scheduler = Scheduler(workers=1, max_waiting=100, metrics=Metrics())

    async def run() -> Vectors:
        scheduler.start()
        waiting = asyncio.ensure_future(scheduler.compute(source, source.prepare(["aa", "b"] * 600), "bulk"))
        await asyncio.to_thread(source.began.acquire)
        closing = asyncio.ensure_future(asyncio.to_thread(scheduler.close))
        await asyncio.to_thread(wait_for, lambda: scheduler._closing)
        source.may_end.set()
        await closing
        return await waiting

    np.testing.assert_array_equal(asyncio.run(run()), [[2], [1]] * 600)


def test_a_text_alone_on_an_idle_server_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = sentence.SentenceEncoder(load("bert-mini", pooling="mean"), name="bert-mini", frozen=True)
    expected = encoder.encode(["some files", "others"])
    forward, seen = sentence._forward, []

    def watched(*given: Any) -> Vectors:
        seen.append((threading.current_thread().name, torch.get_num_threads()))
        return forward(*given)

    monkeypatch.setattr(sentence, "_forward", watched)
    monkeypatch.setattr(sentence, "is_divisible", lambda view, tokens: torch.get_num_threads() > 1)
    before = torch.get_num_threads()
    scheduler = Scheduler(workers=2, max_waiting=100, metrics=Metrics())

    async def run() -> list[Vectors]:
        scheduler.start()
        ready = [encoder.prepare(texts) for texts in (["some files"], ["others"], ["some files", "others"])]
        return [await scheduler.compute(encoder, one, "interactive") for one in ready]

    try:
        first, second, both = asyncio.run(run())
    finally:
        scheduler.close()
        torch.set_num_threads(before)
    np.testing.assert_allclose(np.concatenate([first, second, both]), expected[[0, 1, 0, 1]], atol=1e-5)
    assert seen[:2] == [("model-interactive", 2)] * 2
