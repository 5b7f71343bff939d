"""Endpoints are asked again when they are busy, checked, and told in one line; their key is never shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from sentemb.encoding import NonFiniteError, load_encoder
from sentemb.encoding.endpoint import EndpointEncoder
from sentemb.encoding.resolve import check_address
from sentemb.errors import InputError

ADDRESS = "endpoint:https://api.example/v1#small"
KEY = "sk-secret-key"
Handler = Callable[[httpx.Request], httpx.Response]


def vector(text: str) -> list[float]:
    return [float(len(text)), 0.1, 1.0]


class Endpoint:
    """An endpoint with OpenAI's answers, or others that a test puts before them."""

    def __init__(self) -> None:
        self.first: list[httpx.Response | Exception] = []  # are sent before anything else
        self.bodies: list[dict[str, Any]] = []
        self.waits: list[float] = []
        self.in_base64 = True
        self.model = "small"

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        if request.method == "GET":
            return httpx.Response(404)
        if self.first:
            answer = self.first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        body = json.loads(request.content)
        self.bodies.append(body)
        return httpx.Response(200, json=self.answer([vector(text) for text in body["input"]]))

    def answer(self, vectors: list[list[float]]) -> dict[str, Any]:
        coded: Any = vectors
        if self.in_base64:
            coded = [base64.b64encode(np.array(one, dtype="<f4").tobytes()).decode() for one in vectors]
        rows = [{"index": place, "embedding": one} for place, one in enumerate(coded)]
        return {"model": self.model, "data": rows[::-1]}  # any order


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    made = Endpoint()
    client = partial(httpx.Client, transport=httpx.MockTransport(made))
    monkeypatch.setattr("sentemb.encoding.endpoint.httpx.Client", client)
    monkeypatch.setattr("sentemb.encoding.endpoint.time.sleep", made.waits.append)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return made


@pytest.mark.parametrize("in_base64", [True, False])
def test_texts_are_encoded_once_and_in_batches(endpoint: Endpoint, in_base64: bool) -> None:
    endpoint.in_base64 = in_base64
    texts = ["a" * (place % 70) for place in range(140)]
    encoder = load_encoder(ADDRESS)
    assert (encoder.name, encoder.dimension) == (ADDRESS, 3)
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    expected = [vector(text or " ") for text in texts]
    np.testing.assert_array_equal(vectors, np.array(expected, dtype=np.float32))
    assert [len(body["input"]) for body in endpoint.bodies[1:]] == [32, 32, 6]
    assert {body["model"] for body in endpoint.bodies} == {"small"}
    assert encoder.encode([]).shape == (0, 3)
    encoder.encode(["a" * 60_000, "b" * 60_000])
    assert [len(body["input"]) for body in endpoint.bodies[4:]] == [1, 1]


def test_vectors_are_cached(endpoint: Endpoint, tmp_path: Path) -> None:
    first = load_encoder(ADDRESS, cache_dir=tmp_path).encode(["a", "bb"])
    again = load_encoder(ADDRESS, cache_dir=tmp_path)
    np.testing.assert_array_equal(again.encode(["bb", "a"]), first[::-1])
    assert sum("bb" in body["input"] for body in endpoint.bodies) == 1
    assert KEY not in json.dumps(again.describe())
    assert again.describe()["answered_as"] == "small"


def test_a_busy_endpoint_is_asked_again_when_it_says(endpoint: Endpoint) -> None:
    encoder = load_encoder(ADDRESS)
    date = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}  # in the past
    endpoint.first = [
        httpx.Response(429, headers={"retry-after": "7"}),
        httpx.Response(503),
        httpx.Response(429, headers=date),
        httpx.ReadTimeout("slow"),
    ]
    assert len(encoder.encode(["a"])) == 1
    assert endpoint.waits == [7.0, 2.0, 0.0, 8.0]


UNUSABLE: dict[str, tuple[list[httpx.Response | Exception], str]] = {
    "key": ([httpx.Response(401, json={"error": {"message": f"wrong key {KEY}"}})], "rejects the API key"),
    "model": (
        [httpx.Response(404, json={"error": {"message": "no small"}})],
        r"'small' \(status 404\): no small",
    ),
    "text": ([httpx.Response(400, json={"detail": f"too long, {KEY}"})], r"status 400: too long, \*\*\*"),
    "page": ([httpx.Response(200, text="<html>\nhello")], "as OpenAI's API does: <html> hello"),
    "list": ([httpx.Response(200, json=[1])], "as OpenAI's API does"),
    "null": ([httpx.Response(200, json={"data": [{"embedding": None}]})], "as OpenAI's API does"),
    "order": (
        [httpx.Response(200, json={"data": [{"index": "a", "embedding": [1.0]}, {"embedding": [1.0]}]})],
        "as OpenAI's API does",
    ),
    "count": ([httpx.Response(200, json={"data": []})], "0 vectors for 1 texts"),
    "width": (
        [httpx.Response(200, json={"model": "small", "data": [{"embedding": [1.0]}]})],
        "vectors of 1 dimensions, after 3 before",
    ),
    "other": (
        [httpx.Response(200, json={"model": "large", "data": [{"embedding": [1.0] * 3}]})],
        "answered as large, after small before",
    ),
    "wait": ([httpx.Response(429, headers={"retry-after": "86400"})], "asks to wait 86,400 s"),
    "busy": ([httpx.Response(429, json={"error": "quota"})] * 6, "status 429: quota"),
    "slow": ([httpx.ReadTimeout("timed out")] * 6, "cannot reach https://api.example/v1: timed out"),
    "gone": ([httpx.ConnectError("refused")], "cannot reach https://api.example/v1: refused"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_what_cannot_be_used_is_told_in_one_line(
    kind: str, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = load_encoder(ADDRESS)
    endpoint.first, told = list(UNUSABLE[kind][0]), UNUSABLE[kind][1]
    with pytest.raises(InputError, match=told) as error:
        encoder.encode(["a"])
    assert KEY not in f"{error.value}{caplog.text}" and "\n" not in str(error.value)


def test_numbers_that_are_not_finite_are_refused(endpoint: Endpoint) -> None:
    encoder = load_encoder(ADDRESS)
    endpoint.first = [httpx.Response(200, json=endpoint.answer([[1.0, float("inf"), 0.0]]))]
    with pytest.raises(NonFiniteError, match="small returned NaN or infinity for text 0"):
        encoder.encode(["a"])


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("endpoint:api.example#small", "not of the form"),
        ("endpoint:https://api.example/v1", "not of the form"),
        ("endpoint:https://[::1#small", "not of the form"),
        (f"endpoint:me:{KEY}@api.example/v1#small", "not of the form"),
        (f"endpoint:https://me:{KEY}@api.example/v1#small", "a password or a query"),
        (f"endpoint:https://api.example/v1?key={KEY}#small", "a password or a query"),
    ],
)
def test_addresses_are_checked_before_anything_is_sent(address: str, told: str) -> None:
    for call in (check_address, load_encoder):
        with pytest.raises(InputError, match=told) as error:
            call(address)
        assert KEY not in str(error.value)


def test_options_of_models_do_not_apply(endpoint: Endpoint) -> None:
    with pytest.raises(InputError, match="max_length does not apply to an endpoint"):
        load_encoder(ADDRESS, max_length=8)


def test_the_key_must_be_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one\ntwo")
    with pytest.raises(InputError, match="OPENAI_API_KEY contains characters"):
        EndpointEncoder(ADDRESS)
