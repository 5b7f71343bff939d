"""Requests of hostile or broken clients are rejected without affecting other clients."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from sentemb.encoding import load_encoder
from tests.serving.live import Live, metric, running, serve_with
from tests.serving.models import client_of
from tests.training.training_helpers import make_sentences
from tests.waiting import wait_for

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def serve_tiny(folder: str) -> None:
    """Serve `folder/tiny`; model threads keep their batch while the file `folder/hold` exists."""
    from sentemb.serving import models

    row_encoder, hold = models.row_encoder, Path(folder, "hold")

    def holding(encoder: Any) -> Any:
        rows = row_encoder(encoder)
        compute = rows.compute

        def wait_and_compute(given: Any) -> Any:
            if hold.exists():
                hold.with_name("held").touch()
                wait_for(lambda: not hold.exists())
            return compute(given)

        rows.compute = wait_and_compute
        return rows

    models.row_encoder = holding  # in a process of its own
    serve_with({"models": (f"{folder}/tiny",), "truncate": "truncate", "max_body": 2**20})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tiny").symlink_to(tiny)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Live]:
    """Run a server that waits for its clients."""
    with running(folder / "log", serve_tiny, str(folder)) as found:
        yield found
        assert '"level":"error"' not in found.log.read_text()


def connect(server: Live) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port))


def rest_of(connection: socket.socket) -> bytes:
    """Return the bytes received until the server closes the connection."""
    received = b""
    try:
        while some := connection.recv(65536):
            received += some
    except ConnectionResetError:
        pass
    return received


def is_healthy(server: Live) -> bool:
    return httpx.get(f"{server.address}/health", timeout=None).status_code == 200


def test_silent_connections_are_in_nobodys_way(server: Live) -> None:
    with ExitStack() as connections:
        for _ in range(300):
            connections.enter_context(connect(server))
        assert is_healthy(server)


@pytest.mark.parametrize("headers", [{"X-A": "a" * 70_000}, {f"X-{one}": "abc" for one in range(6000)}])
def test_a_large_head_is_refused_though_it_comes_at_once(headers: dict[str, str], client: TestClient) -> None:
    answer = client.get("/health", headers=headers)
    assert answer.status_code == 431 and "65,536 bytes" in answer.json()["detail"]
    assert client.get("/health", headers={"X-A": "a" * 60_000}).status_code == 200


@pytest.mark.parametrize(
    ("parts", "status", "told"),
    [
        ([HEAD + b"Content-Length: 99999999999\r\n\r\n"], 413, "1,048,576 bytes"),
        (
            [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"20000\r\n" + bytes(2**17) + b"\r\n"] * 9],
            413,
            "several requests",
        ),
        ([HEAD + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n"], 400, "Invalid HTTP"),
        ([HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"], 400, "Invalid HTTP"),
        ([b"\x16\x03\x01\x02\x00 this is TLS\r\n\r\n"], 400, "Invalid HTTP"),
    ],
    ids=["announced", "chunks", "head", "two-lengths", "tls"],
)
def test_a_body_too_large_and_what_is_no_http(
    parts: list[bytes], status: int, told: str, server: Live
) -> None:
    with connect(server) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except OSError:
            pass  # closed meanwhile
        received = rest_of(connection)
    assert received.startswith(f"HTTP/1.1 {status} ".encode()), received[:300]
    assert told.encode() in received
    assert is_healthy(server)


def test_what_nobody_waits_for_any_more_is_not_computed(server: Live, folder: Path) -> None:
    texts = [" ".join(make_sentences(4, seed=seed)) for seed in range(2048)]
    body = json.dumps({"model": "tiny", "input": texts}).encode()
    (folder / "hold").touch()
    with connect(server) as connection:
        connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_for((folder / "held").exists, alive=server.process.is_alive)
    wait_for(lambda: metric(server, "sentemb_tokens_waiting") == 0, alive=server.process.is_alive)
    (folder / "hold").unlink()
    assert 0 < metric(server, "sentemb_texts_dropped_total") <= len(texts)
    few = {"model": "tiny", "input": texts[:9]}  # in the same queue
    assert httpx.post(f"{server.address}/v1/embeddings", json=few, timeout=None).status_code == 200
    # Of the 256 or more that were queued one batch was computed, and none after it.
    assert 9 <= metric(server, 'sentemb_batch_texts_total{queue="bulk"}') < 128


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, animals: Path) -> Iterator[TestClient]:
    folder = shutil.copytree(animals, tmp_path_factory.mktemp("indexes") / "animals")
    with client_of(models=("static-mini",), indexes=(Path(folder),)) as found:
        yield found


DEEP = b'{"model": "static-mini", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WIDE = b'{"model": "static-mini", "input": "a", "dimensions": %b}'
FAR = b'{"documents": [{"text": "a", "metadata": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}]}"


@pytest.mark.parametrize(
    ("path", "content", "headers", "status"),
    [
        ("v1/embeddings", DEEP, {}, 400),
        ("v1/indexes/animals/documents", FAR, {}, 422),
        ("v1/embeddings", WIDE % b"8", {"Content-Type": "text/plain"}, 415),
        ("v1/embeddings", gzip.compress(b'{"model": "static-mini"}'), {"Content-Encoding": "gzip"}, 415),
        ("v1/embeddings", b'{"model": "static-mini", "input": "\\udc00"}', {}, 400),
        ("v1/embeddings", WIDE % b"NaN", {}, 400),
        ("v1/embeddings", WIDE % b"1e400", {}, 400),
        ("v1/embeddings", WIDE % (b"1" + b"0" * 5000), {}, 400),
        ("v1/indexes/animals/search", b'{"query": "a", "min_score": -1e999}', {}, 400),
        ("v1/indexes/animals/search", b'{"query": "a", "kay": 5}', {}, 422),
        ("v1/indexes/..%2f..%2fetc%2fpasswd/search", b'{"query": "a"}', {}, 404),
        ("v1/indexes/%00/search", b'{"query": "a"}', {}, 404),
        ("v1/indexes/animals/search", b'{"query": "%s"}' % (b"a" * 40_000), {}, 422),
    ],
    ids=range(13),
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
        ("evil.example", 400),
        ("127.0.0.1.evil.example:8000", 400),
        ("127.0.0.1@evil.example", 400),
        ("0.0.0.0", 400),
        ("localhost:8000, evil.example", 400),
        ("evil.example, localhost:8000", 400),
        ("localhost:8000/evil.example", 400),
        ("", 400),
        ("LocalHost:8000", 200),
        ("127.9.9.9", 400),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str, status: int, client: TestClient) -> None:
    assert client.get("/v1/models", headers={"Host": host}).status_code == status


def test_more_than_can_wait_is_told_when_to_come_again() -> None:
    with client_of(models=("static-mini",), max_requests=0) as client:
        answer = client.get("/v1/models")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def locked() -> Iterator[TestClient]:
    with client_of(models=("static-mini",), keys=frozenset([KEY])) as found:
        yield found


def answer_without_a_body(client: TestClient, method: str, path: str, head: list[tuple[bytes, bytes]]) -> int:
    """Send headers without the announced body, and return the status of the answer."""
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": head, "query_string": b""}
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    return int(sent[0]["status"])


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings/", "/v1/indexes/none/documents", "/none"])
@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer wrong-0123456789")]])
def test_the_key_is_checked_before_the_body_is_read(
    path: str, headers: list[tuple[bytes, bytes]], locked: TestClient
) -> None:
    head = [(b"host", b"127.0.0.1"), (b"content-length", b"99999999999"), *headers]
    assert answer_without_a_body(locked, "POST", path, head) == 401


def test_nobody_waits_for_the_body_of_a_path_without_one(locked: TestClient) -> None:
    head = [(b"host", b"127.0.0.1"), (b"content-length", b"9")]
    assert answer_without_a_body(locked, "GET", "/health", head) == 200


def test_paths_without_documents_need_no_key(locked: TestClient) -> None:
    assert {locked.get(path).status_code for path in ("/", "/health", "/ready", "/openapi.json")} == {200}
    answer = locked.post("/v1/embeddings", content=b"{", headers={"Authorization": f"Bearer {KEY}", **JSON})
    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/embeddings/", "/embeddings", "/embeddings/"])
def test_a_trailing_slash_or_a_missing_v1_leads_to_the_same_route(path: str, client: TestClient) -> None:
    answer = client.post(path, json={"model": "static-mini", "input": "a cat"})
    assert answer.status_code == 200 and len(answer.json()["data"]) == 1
    assert client.get(path.replace("embeddings", "models")).json()["data"][0]["id"] == "static-mini"


def test_an_unknown_route_names_where_the_routes_are(client: TestClient) -> None:
    answer = client.get("/v2/embeddings")
    assert answer.status_code == 404 and "/openapi.json" in answer.json()["detail"]


def test_invented_methods_and_paths_share_one_label(client: TestClient) -> None:
    def series() -> set[str]:
        lines = client.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0] for line in lines if line.startswith("sentemb_request")}

    client.request("M1", "/x1")
    client.request("M2", "/health")
    before = series()
    for number in range(20):
        client.request(f"N{number}", f"/y{number}")
        client.request(f"N{number}", "/health")
    assert series() - before <= {one for one in series() if "/metrics" in one}
