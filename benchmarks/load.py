"""Load an HTTP server: requests one after another on several connections, or at given moments."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

Body = dict[str, Any]


@dataclass
class Answers:
    """What a server has answered.

    Attributes:
        seconds: Of each request answered 200, from the moment it was due.
        texts: How many texts those had.
        refused: How many were answered 429.
        failed: How many were answered otherwise, or not at all.
    """

    seconds: list[float] = field(default_factory=list)
    texts: int = 0
    refused: int = 0
    failed: int = 0

    def note(self, status: int, seconds: float, texts: int) -> None:
        """Count an answer."""
        if status == 200:
            self.seconds.append(seconds)
            self.texts += texts
        elif status == 429:
            self.refused += 1
        else:
            self.failed += 1


class Connection:
    """A connection that is kept, and reads answers without understanding them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> int:
        """The status of an answer that has been read whole."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # it was idle for longer than a server keeps it
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(answer.partition(b"content-length:")[2].split(b"\r\n")[0]))
        return int(answer.split(b" ", 2)[1])

    def close(self) -> None:
        """Close it; another request opens it again."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def saturate(
    port: int,
    path: str,
    bodies: Callable[[], Iterator[tuple[bytes, int]]],
    *,
    connections: int,
    start: float,
    end: float,
) -> Answers:
    """As many requests as some connections take; what is answered between two moments counts."""
    answers = Answers()

    async def work(some: Iterator[tuple[bytes, int]]) -> None:
        connection = Connection(port)
        while time.monotonic() < end:
            body, texts = next(some)
            sent = time.monotonic()
            status = await _status(connection, path, body)
            if start <= time.monotonic() <= end:
                answers.note(status, time.monotonic() - sent, texts)
        connection.close()

    await asyncio.gather(*(work(bodies()) for _ in range(connections)))
    return answers


async def at_random_moments(
    port: int, path: str, bodies: Iterator[tuple[bytes, int]], *, rate: float, end: float, seed: int = 0
) -> Answers:
    """Requests at a mean rate whatever the answers take, as of many people who know nothing of each other."""
    draw = random.Random(seed)
    answers = Answers()
    idle: list[Connection] = []
    waiting: set[asyncio.Task[None]] = set()

    async def one(due: float, body: bytes, texts: int) -> None:
        connection = idle.pop() if idle else Connection(port)
        status = await _status(connection, path, body)
        answers.note(status, time.monotonic() - due, texts)
        idle.append(connection)

    due = time.monotonic()
    while (due := due + draw.expovariate(rate)) < end:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.ensure_future(one(due, *next(bodies)))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    for connection in idle:
        connection.close()
    return answers


def encoded(body: Body) -> bytes:
    """A body as JSON."""
    return orjson.dumps(body)


async def _status(connection: Connection, path: str, body: bytes) -> int:
    with suppress(OSError, EOFError, ValueError, IndexError):
        return await connection.post(path, body)
    connection.close()
    return 0
