"""Confirmed changes persist regardless of how a server ends.

It is killed `SENTEMB_KILLS` times during changes: once by default, 30 times by `make kill`.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from sentemb import Client
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from tests.serving.live import Live, live, metric, running, serve_with
from tests.training.training_helpers import make_sentences
from tests.waiting import wait_for

KILLS = int(os.environ.get("SENTEMB_KILLS", "1"))
WRITERS, TOGETHER = 4, 3


def test_an_answered_change_is_there_after_kills(tmp_path: Path, animals: Path) -> None:
    folder = shutil.copytree(animals, tmp_path / "animals")
    numbers = itertools.count()
    answered: dict[str, str] = {}
    for kill in range(KILLS):
        with live(tmp_path / "log", "--index", folder) as server, ThreadPoolExecutor(WRITERS) as pool:
            stopping = threading.Event()
            before = len(answered)
            sent = [pool.submit(write, server, numbers, answered, stopping) for _ in range(WRITERS)]
            wait_for(lambda: len(answered) > before, alive=server.process.is_alive)  # noqa: B023
            time.sleep(random.Random(kill).random())
            server.stop(signal.SIGKILL)
            stopping.set()
        for writer in sent:
            writer.result()
    index = SearchIndex.load(folder)
    found = index.get(list(answered))
    assert [one and one.text for one in found] == list(answered.values())
    # An unconfirmed write is complete or absent.
    for number in range(next(numbers)):
        there = index.get([f"{number}-{part}" for part in range(TOGETHER)])
        assert [one and one.text for one in there] in ([None] * TOGETHER, texts_of(number))
    last = list(answered)[-1]
    assert index.search(answered[last], 1, mode="keyword")[0].id == last
    index.update([(last, "a zebra")])
    assert index.search("zebra", 1)[0].id == last


def texts_of(number: int) -> list[str]:
    return [f"entry{number} part{part} of a text" for part in range(TOGETHER)]


def write(
    server: Live, numbers: itertools.count[int], answered: dict[str, str], stopping: threading.Event
) -> None:
    """Add documents until the server is gone, and record the confirmed ones."""
    with Client(server.address) as client:
        while not stopping.is_set():
            number = next(numbers)
            documents = {f"{number}-{part}": text for part, text in enumerate(texts_of(number))}
            try:
                client.add("animals", list(documents.items()))
            except InputError as error:
                assert "cannot reach" in str(error), error
                break
            answered.update(documents)


def test_a_signal_lets_accepted_requests_finish(tmp_path: Path, tiny: Path) -> None:
    texts = [" ".join(make_sentences(3, seed=seed)) for seed in range(300)]
    expected = load_encoder(tiny).encode(texts)
    body = json.dumps({"model": "tiny", "input": texts, "encoding_format": "base64"}).encode()
    settings = {"models": (str(tiny),), "truncate": "truncate", "stop_seconds": 3600}
    with running(tmp_path / "log", serve_with, settings) as server, ExitStack() as connections:
        sent = [connections.enter_context(begin_request(server, body[:-1], len(body))) for _ in range(6)]
        # They cannot end before the last byte; the one that asks is the seventh.
        wait_for(lambda: metric(server, "sentemb_requests_open") == 7, alive=server.process.is_alive)
        assert server.process.pid is not None
        for early in sent[:3]:
            early.send(body[-1:])
        os.kill(server.process.pid, signal.SIGTERM)
        wait_for(lambda: "Shutting down" in server.log.read_text(), alive=server.process.is_alive)
        for late in sent[3:]:
            late.send(body[-1:])
        for request in sent:
            np.testing.assert_array_equal(vectors_of(request), expected)
        assert server.stop() in (0, -signal.SIGTERM, 143)
        with pytest.raises(InputError, match="cannot reach"), Client(server.address, retries=0) as client:
            client.encode(["late"])


@contextmanager
def begin_request(server: Live, body: bytes, length: int) -> Iterator[HTTPConnection]:
    """Send a request whose body has more bytes than are sent."""
    with closing(HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.putrequest("POST", "/v1/embeddings")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(length))
        connection.endheaders(body)
        yield connection


def vectors_of(request: HTTPConnection) -> np.ndarray:
    """Return the vectors of the answer."""
    answer = request.getresponse()
    assert answer.status == 200
    rows = [base64.b64decode(one["embedding"]) for one in json.load(answer)["data"]]
    return np.array([np.frombuffer(row, dtype="<f4") for row in rows])
