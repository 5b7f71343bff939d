"""Served vectors are byte-identical to the library's, and every error is a problem document."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx, which the test extra brings")

from fastapi.testclient import TestClient

import sentemb
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import Vectors, normalised
from sentemb.errors import InputError
from sentemb.serving.app import create_app
from sentemb.serving.settings import Settings, read_keys
from tests import test_architecture as architecture
from tests.serving.models import client_of
from tests.training.training_helpers import make_sentences

KEY = "0123456789abcdef"
TEXTS = [*make_sentences(60, seed=1), "", "cat " * 300, "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    path = tmp_path_factory.mktemp("served") / "tiny"
    sentemb.load(tiny_bert, pooling="mean", device="cpu").save(str(path))
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(models=(str(folder), "static-mini"), truncate="truncate") as found:
        yield found


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Iterator[TestClient]:
    path = tmp_path_factory.mktemp("prompted") / "tiny"
    model = sentemb.load(tiny_bert, pooling="mean", device="cpu")
    model.prompts |= {"query": "the dog ", "passage": "a mat "}
    model.save(str(path))
    with client_of(models=(str(path),)) as found:
        yield found


def served(client: TestClient, texts: Any, model: str = "tiny", **options: Any) -> Vectors:
    answer = client.post(
        "/v1/embeddings", json={"model": model, "input": texts, "encoding_format": "base64", **options}
    )
    assert answer.status_code == 200, answer.text
    rows = [base64.b64decode(one["embedding"]) for one in answer.json()["data"]]
    return np.array([np.frombuffer(row, dtype="<f4") for row in rows])


@pytest.mark.parametrize("model", ["tiny", "static-mini"])
def test_a_vector_has_the_bytes_of_the_librarys_alone_and_in_company(
    model: str, folder: Path, client: TestClient
) -> None:
    encoder = load_encoder(folder if model == "tiny" else model)
    expected = encoder.encode(TEXTS)
    np.testing.assert_array_equal(served(client, TEXTS, model), expected)
    with ThreadPoolExecutor(8) as pool:
        alone = list(pool.map(lambda text: served(client, text, model)[0], TEXTS))
    np.testing.assert_array_equal(alone, expected)
    np.testing.assert_array_equal(encoder.encode(TEXTS[3:4])[0], expected[3])


@pytest.mark.parametrize(
    ("field", "value", "role"),
    [
        ("input_type", "query", "query"),
        ("input_type", "search_query", "query"),
        ("input_type", "passage", "document"),
        ("input_type", "document", "document"),
        ("input_type", "search_document", "document"),
        ("prompt_name", "query", "query"),
        ("prompt_name", "passage", "document"),
    ],
)
def test_other_servers_names_of_a_role(field: str, value: str, role: Any, prompted: TestClient) -> None:
    vectors = served(prompted, TEXTS[:5], **{field: value})
    np.testing.assert_array_equal(vectors, served(prompted, TEXTS[:5], role=role))
    other = {"query": "document", "document": "query"}[role]
    assert not np.allclose(vectors, served(prompted, TEXTS[:5], role=other))


def test_numbers_and_base64_are_the_same_and_tokens_are_counted(client: TestClient) -> None:
    answer = client.post("/v1/embeddings", json={"model": "tiny", "input": TEXTS}).json()
    rows = np.array([one["embedding"] for one in answer["data"]], dtype=np.float32)
    np.testing.assert_array_equal(rows, served(client, TEXTS))
    assert [one["index"] for one in answer["data"]] == list(range(len(TEXTS)))
    assert answer["truncated"] == 1
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > len(TEXTS)


def test_dimensions_are_cut_and_scaled_where_that_is_forced(client: TestClient) -> None:
    whole = served(client, TEXTS[:5])
    cut = served(client, TEXTS[:5], dimensions=8, force_dimensions=True)
    np.testing.assert_array_equal(cut, normalised(whole[:, :8]))


def test_the_models_are_listed(client: TestClient, folder: Path) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [one["id"] for one in listed] == ["tiny", "static-mini"]
    assert client.get("/v1/models/tiny").json() == listed[0]
    assert listed[0]["fingerprint"] == load_encoder(folder).fingerprint


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{", 400, "not valid JSON"),
        (b'{"model": "tiny", "input": "\\ud800"}', 400, "not valid JSON"),
        (b'{"model": "tiny", "input": "\xff"}', 400, "not valid JSON"),
        ({"model": "tiny", "input": [9906, 1917]}, 409, "check_embedding_ctx_length=False"),
        ({"model": "tiny:query", "input": "a", "role": "document"}, 409, "but the role is document"),
        ({"model": "tiny:query", "input": "a", "input_type": "passage"}, 409, "but the role is document"),
        (
            {"model": "tiny", "input": "a", "role": "query", "prompt_name": "document"},
            409,
            "role is query and prompt_name is document, which are different roles; send one of them",
        ),
        ({"model": "tiny", "input": "a", "input_type": "clustering"}, 422, "input_type"),
        ({"model": "tiny", "input": "a", "prompt_name": "s2s"}, 422, "prompt_name"),
        ({"model": "none", "input": "a"}, 404, "tiny"),
        ({"model": "tiny", "input": []}, 422, "input"),
        ({"model": "tiny", "input": ["a", 5]}, 422, "input"),
        ({"model": "tiny", "input": ["a"] * 2049}, 422, "2048"),
        ({"model": "tiny", "input": "a", "dimensions": 0}, 422, "dimensions"),
        ({"model": "tiny", "input": "a", "dimensions": 99, "force_dimensions": True}, 409, "16 dimensions"),
        ({"model": "tiny", "input": "cat " * 300, "truncate": "error"}, 409, "tokens"),
    ],
)
def test_a_bad_request_is_a_problem_that_says_what_to_do(
    body: Any, status: int, told: str, client: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/v1/embeddings", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and told in answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("options", "headers", "size", "status"),
    [
        ({}, {"Host": "evil.example"}, 9, 400),
        ({"max_body": 100}, {}, 200, 413),
        ({}, {"Content-Type": "text/plain"}, 9, 415),
        ({"keys": frozenset([KEY])}, {}, 9, 401),
        ({"keys": frozenset()}, {}, 9, 401),
        ({"keys": frozenset([KEY])}, {"Authorization": f"Bearer {KEY}x"}, 9, 401),
    ],
)
def test_what_stands_before_the_routes(
    options: dict[str, Any], headers: dict[str, str], size: int, status: int
) -> None:
    with client_of(models=("static-mini",), **options) as client:
        content = json.dumps({"model": "static-mini", "input": "a" * size}).encode()
        sent = {"Content-Type": "application/json", **headers}
        assert client.post("/v1/embeddings", content=content, headers=sent).status_code == status
        assert client.get("/health").status_code == 200


def test_a_key_opens_the_routes() -> None:
    with client_of(models=("static-mini",), keys=frozenset([KEY, KEY[::-1]])) as client:
        allowed = {"Authorization": f"Bearer {KEY}"}
        assert client.get("/v1/models", headers=allowed).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert 'route="/v1/models",status="200"' in client.get("/metrics", headers=allowed).text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "there is nothing to serve"),
        ({"models": ("static-mini",), "workers": 10**9}, "--workers 1000000000: this machine has"),
        ({"models": ("static-mini",), "host": "0.0.0.0"}, "no API key is set"),
        ({"models": ("static-mini", "static-mini")}, "two models are called static-mini"),
        ({"models": ("static-mini",), "keys": frozenset([KEY]), "no_auth": True}, "remove one of them"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        create_app(Settings(**options))


def test_keys_are_read_from_a_file_and_bad_ones_refused(
    write_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_keys(write_file("keys", f"{KEY}\n\n{KEY[::-1]}\n")) == {KEY, KEY[::-1]}
    monkeypatch.setenv("SENTEMB_API_KEYS", f"{KEY},short")
    with pytest.raises(InputError, match="key 2 of SENTEMB_API_KEYS"):
        read_keys(None)
    with pytest.raises(InputError, match="does not contain a key"):
        read_keys(write_file("empty", "\n"))


def test_openai_client(client: TestClient) -> None:
    openai = pytest.importorskip("openai", reason="needs the openai client, which the test extra brings")
    asked = openai.OpenAI(api_key="any", base_url="http://127.0.0.1/v1", http_client=client)
    answer = asked.embeddings.create(model="tiny", input=TEXTS[:4])
    np.testing.assert_array_equal(
        np.array([one.embedding for one in answer.data], np.float32), served(client, TEXTS[:4])
    )


@pytest.mark.parametrize(
    ("request_body", "reason"),
    [
        ({"model": "none", "input": "a"}, "unknown model 'none'"),
        ({"model": "tiny", "input": [[1, 2]]}, "token ids of another tokenizer"),
        ({"model": "tiny", "input": "a", "dimensions": 10**6}, "dimensions"),
        ({"model": "tiny", "input": "cat " * 1000, "extra_body": {"truncate": "error"}}, "longer than"),
        ({"model": "tiny", "input": "a", "extra_body": {"role": "none"}}, "role: "),
    ],
)
def test_openai_clients_show_the_reason(request_body: Any, reason: str, client: TestClient) -> None:
    openai = pytest.importorskip("openai", reason="needs the openai client, which the test extra brings")
    asked = openai.OpenAI(api_key="any", base_url="http://127.0.0.1/v1", http_client=client, max_retries=0)
    with pytest.raises(openai.APIStatusError) as refusal:
        asked.embeddings.create(**request_body)
    problem = refusal.value.response.json()
    assert reason in str(refusal.value) and reason in problem["detail"]
    assert problem["error"]["message"] == problem["detail"]
    assert problem["error"]["param"] == problem.get("field") == refusal.value.param
    assert refusal.value.type == "invalid_request_error"


def test_the_command_reads_the_settings_without_the_extra() -> None:
    modules = {architecture.module_name(path): path for path in architecture.PACKAGE.rglob("*.py")}
    imported = {*architecture.imported_modules(modules["sentemb.serving.settings"], modules)}
    assert not any(name.startswith("sentemb.serving") for name in imported)


def test_a_request_for_embeddings_passes_through_few_files() -> None:
    modules = {architecture.module_name(path): path for path in architecture.PACKAGE.rglob("*.py")}
    room = {name for name in modules if name.startswith("sentemb.serving.")}
    reached = {"sentemb.serving.app", "sentemb.encoding.rows"}  # where it enters and leaves the room
    waiting = {"sentemb.serving.embeddings"}
    while waiting:
        reached.add(module := waiting.pop())
        waiting |= {*architecture.imported_modules(modules[module], modules)} & room - reached
    assert len(reached) <= 8, sorted(reached)
