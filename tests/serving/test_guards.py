"""What hostile or broken clients send is refused, and harms nobody else."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from fastapi.testclient import TestClient

import sentemb
from sentemb.encoding import load_encoder
from sentemb.search import SearchIndex
from sentemb.serving.app import create_app
from sentemb.serving.settings import Settings
from tests.serving.live import Live, running
from tests.training.training_helpers import make_sentences

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
PATIENCE = 1.0


def serve_impatiently(model: str) -> None:
    from sentemb.serving.logs import logger
    from sentemb.serving.server import serve

    settings = Settings(
        models=(model,),
        port=0,
        workers=1,
        truncate="truncate",
        max_body=2**20,
        header_seconds=PATIENCE,
        body_seconds=PATIENCE,
    )
    serve(settings, announce=lambda address: logger.info("%s", address))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("guarded") / "tiny"
    sentemb.load(tiny_bert, pooling="mean", device="cpu").save(str(folder))
    with running(folder.parent / "log", serve_impatiently, str(folder)) as found:
        yield found
        assert '"level":"error"' not in found.log.read_text()


def answer_to(server: Live, *parts: bytes, pause: float = 0.0) -> tuple[bytes, float]:
    """What is answered until the connection is closed, and after how many seconds."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        except OSError:
            pass  # closed meanwhile
        received = b""
        try:
            while some := connection.recv(65536):
                received += some
        except ConnectionResetError:
            pass
    return received, time.monotonic() - start


def test_a_head_that_does_not_end_is_not_waited_for(server: Live) -> None:
    for head in (b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
        dripping = [head, *[b"X-A: b\r\n" if head else b""] * 30]
        received, seconds = answer_to(server, *dripping, pause=0.1)
        assert received == b"" and seconds < 5
    started = time.monotonic()
    with ExitStack() as connections:
        opened = [
            connections.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(300)
        ]
        assert httpx.get(f"{server.address}/health").status_code == 200
        assert [connection.recv(1) for connection in opened] == [b""] * 300
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("parts", "status", "told"),
    [
        ([HEAD + b"Content-Length: 1000\r\n\r\n{"], 408, "too long"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"], 408, "too long"),
        ([HEAD + b"Content-Length: 99999999999\r\n\r\n"], 413, "1,048,576 bytes"),
        (
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"20000\r\n" + bytes(2**17) + b"\r\n"] * 9],
            413,
            "parts",
        ),
        ([HEAD + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n"], 431, "head"),
        ([HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"], 400, "Invalid HTTP"),
        ([b"\x16\x03\x01\x02\x00 this is TLS\r\n\r\n"], 400, "Invalid HTTP"),
    ],
    ids=["slow", "slow-chunks", "announced", "chunks", "head", "two-lengths", "tls"],
)
def test_a_body_too_slow_or_too_large_and_what_is_no_http(
    parts: list[bytes], status: int, told: str, server: Live
) -> None:
    received, seconds = answer_to(server, *parts)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), received[:300]
    assert b"application/problem+json" in head and told in json.loads(body)["detail"]
    assert seconds < 8
    assert httpx.get(f"{server.address}/health").status_code == 200


def test_what_nobody_waits_for_any_more_is_not_computed(server: Live) -> None:
    texts = [" ".join(make_sentences(4, seed=seed)) for seed in range(2048)]
    body = json.dumps({"model": "tiny", "input": texts}).encode()
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.05)
    deadline = time.monotonic() + 30
    while not (dropped := counter(server, "sentemb_texts_dropped_total")) or counter(
        server, "sentemb_tokens_waiting"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert dropped <= 4 * len(texts)


def counter(server: Live, name: str) -> float:
    counters = httpx.get(f"{server.address}/metrics").text
    return next(float(line.split()[1]) for line in counters.splitlines() if line.startswith(f"{name} "))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("indexes") / "animals"
    SearchIndex.build(make_sentences(30, seed=3), "static-mini").save(folder)
    app = create_app(Settings(models=("static-mini",), indexes=(folder,)))
    with TestClient(app, base_url="http://127.0.0.1") as found:
        yield found


DEEP = b'{"model": "static-mini", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WIDE = b'{"model": "static-mini", "input": "a", "dimensions": %b}'
FAR = b'{"documents": [{"text": "a", "metadata": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}]}"


@pytest.mark.parametrize(
    ("path", "content", "headers", "status"),
    [
        ("v1/embeddings", DEEP, {}, 400),
        ("v1/indexes/animals/documents", FAR, {}, 422),
        ("v1/embeddings", gzip.compress(b'{"model": "static-mini"}'), {"Content-Encoding": "gzip"}, 415),
        ("v1/embeddings", b'{"model": "static-mini", "input": "\\udc00"}', {}, 400),
        ("v1/embeddings", WIDE % b"NaN", {}, 400),
        ("v1/embeddings", WIDE % b"1e400", {}, 400),
        (
            "v1/embeddings",
            WIDE % (b"1" + b"0" * 5000),
            {},
            400,
        ),
        ("v1/indexes/animals/search", b'{"query": "a", "min_score": -1e999}', {}, 400),
        ("v1/indexes/animals/search", b'{"query": "a", "kay": 5}', {}, 422),
        ("v1/indexes/..%2f..%2fetc%2fpasswd/search", b'{"query": "a"}', {}, 404),
        ("v1/indexes/%00/search", b'{"query": "a"}', {}, 404),
        ("v1/indexes/animals/search", b'{"query": "%s"}' % (b"a" * 40_000), {}, 422),
    ],
    ids=range(12),
)
def test_odd_bodies_are_problems(
    path: str, content: bytes, headers: dict[str, str], status: int, client: TestClient
) -> None:
    answer = client.post(f"/{path}", content=content, headers={**JSON, **headers})
    assert answer.status_code == status, answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"


def test_nul_characters_are_characters(client: TestClient) -> None:
    text = "a\0b \0"
    vector = client.post("/v1/embeddings", json={"model": "static-mini", "input": text}).json()["data"][0]
    expected = load_encoder("static-mini").encode([text])[0]
    np.testing.assert_array_equal(np.array(vector["embedding"], np.float32), expected)
    route = "/v1/indexes/animals/documents"
    assert client.post(route, json={"documents": [{"id": "\0", "text": text}]}).status_code == 200
    stored = client.get(route, params={"id": json.dumps("\0")}).json()["documents"]
    assert stored == [{"id": "\0", "text": text, "metadata": {}}]
    for mode in ("dense", "keyword", "hybrid"):
        answer = client.post("/v1/indexes/animals/search", json={"query": text, "mode": mode})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("127.0.0.1@evil.example", 421),
        ("0.0.0.0", 421),
        ("", 421),
        ("LocalHost:8000", 200),
        ("127.9.9.9", 200),
        ("[::1]:8000", 200),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str, status: int, client: TestClient) -> None:
    assert client.get("/v1/models", headers={"Host": host}).status_code == status


def test_more_than_can_wait_is_told_when_to_come_again() -> None:
    app = create_app(Settings(models=("static-mini",), max_requests=0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/v1/models")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
