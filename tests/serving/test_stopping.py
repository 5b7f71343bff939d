"""However a server ends, what it has answered is so.

It is killed `SENTEMB_KILLS` times in the middle of changes, once by default; `make kill` does so 30 times.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import sentemb
from sentemb import Client
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.serving.live import Live, live
from tests.training.training_helpers import make_sentences

KILLS = int(os.environ.get("SENTEMB_KILLS", "1"))
WRITERS, TOGETHER = 4, 3


def test_an_answered_change_is_there_after_kills(tmp_path: Path) -> None:
    folder = tmp_path / "animals"
    SearchIndex.build(make_sentences(30, seed=3), "static-mini").save(folder)
    numbers = itertools.count()
    answered: dict[str, str] = {}
    for kill in range(KILLS):
        with live(tmp_path / "log", "--index", folder) as server, ThreadPoolExecutor(WRITERS) as pool:
            stopping = threading.Event()
            sent = [pool.submit(write, server, numbers, stopping) for _ in range(WRITERS)]
            time.sleep(0.3 + random.Random(kill).random())
            server.stop(signal.SIGKILL)
            stopping.set()
        for texts in sent:
            answered |= texts.result()
    index = SearchIndex.load(folder)
    assert len(answered) >= TOGETHER * KILLS
    found = index.get(list(answered))
    assert [one and one.text for one in found] == list(answered.values())
    # What nobody was told of is whole or not there.
    for number in range(next(numbers)):
        there = index.get([f"{number}-{part}" for part in range(TOGETHER)])
        assert [one and one.text for one in there] in ([None] * TOGETHER, texts_of(number))
    last = list(answered)[-1]
    assert index.search(answered[last], 1, mode="keyword")[0].id == last
    index.update([(last, "a zebra")])
    assert index.search("zebra", 1)[0].id == last


def texts_of(number: int) -> list[str]:
    return [f"entry{number} part{part} of a text" for part in range(TOGETHER)]


def write(server: Live, numbers: itertools.count[int], stopping: threading.Event) -> dict[str, str]:
    """Add documents until the server is gone, and return those of which it was said that they are there."""
    answered: dict[str, str] = {}
    with Client(server.address) as client:
        while not stopping.is_set():
            number = next(numbers)
            documents = {f"{number}-{part}": text for part, text in enumerate(texts_of(number))}
            try:
                client.add("animals", list(documents.items()))
            except InputError as error:
                assert "no answer" in str(error), error
                break
            answered |= documents
    return answered


def test_a_signal_lets_accepted_requests_finish(tmp_path: Path, tiny_bert: Path) -> None:
    folder = tmp_path / "tiny"
    sentemb.load(tiny_bert, pooling="mean", device="cpu").save(str(folder))
    texts = [" ".join(make_sentences(3, seed=seed)) for seed in range(2000)]
    expected = load_encoder(folder).encode(texts)
    with live(tmp_path / "log", folder, "--truncate", "truncate") as server, ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(encode, server, texts) for _ in range(6)]
        while open_requests(server) < 7:  # the one that asks is the seventh
            time.sleep(0.01)
        assert server.process.pid is not None
        os.kill(server.process.pid, signal.SIGTERM)
        for one in sent:
            np.testing.assert_array_equal(one.result(), expected)
        assert server.stop() in (0, -signal.SIGTERM, 143)
        with pytest.raises(InputError, match="no answer"):
            encode(server, ["late"])


def encode(server: Live, texts: list[str]) -> np.ndarray:
    with Client(server.address, retries=0) as client:
        return client.encode(texts)


def open_requests(server: Live) -> float:
    counters = httpx.get(f"{server.address}/metrics").text
    (line,) = [line for line in counters.splitlines() if line.startswith("sentemb_requests_open ")]
    return float(line.split()[1])
