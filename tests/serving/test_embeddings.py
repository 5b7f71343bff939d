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
def client(tiny: Path) -> Iterator[TestClient]:
    with client_of(models=(str(tiny), "static-mini"), truncate="truncate") as found:
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
    model: str, tiny: Path, client: TestClient
) -> None:
    encoder = load_encoder(tiny if model == "tiny" else model)
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


def test_the_models_are_listed(client: TestClient, tiny: Path) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [one["id"] for one in listed] == ["tiny", "static-mini"]
    assert client.get("/v1/models/tiny").json() == listed[0]
    assert listed[0]["fingerprint"] == load_encoder(tiny).fingerprint


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{", 400, "not valid JSON"),
        (b'{"model": "tiny", "input": "\\ud800"}', 400, "not valid JSON"),
        (b'{"model": "tiny", "input": "\xff"}', 400, "not valid JSON"),
        ({"input": [9906, 1917]}, 409, "check_embedding_ctx_length=False"),
        ({"input": [[1, 2]]}, 409, "token ids of another tokenizer"),
        ({"model": "tiny:query", "role": "document"}, 409, "but the role is document"),
        ({"model": "tiny:query", "input_type": "passage"}, 409, "but the role is document"),
        (
            {"role": "query", "prompt_name": "document"},
            409,
            "role is query and prompt_name is document, which are different roles; send one of them",
        ),
        ({"role": "none"}, 422, "role: "),
        ({"input_type": "clustering"}, 422, "input_type"),
        ({"prompt_name": "s2s"}, 422, "prompt_name"),
        ({"model": "none"}, 404, "unknown model 'none'"),
        ({"input": []}, 422, "input"),
        ({"input": ["a", 5]}, 422, "input"),
        ({"input": ["a"] * 2049}, 422, "2048"),
        ({"dimensions": 0}, 422, "dimensions"),
        ({"dimensions": 10**6}, 409, "dimensions"),
        ({"dimensions": 99, "force_dimensions": True}, 409, "16 dimensions"),
        ({"input": "cat " * 300, "truncate": "error"}, 409, "longer than"),
    ],
)
def test_a_bad_request_is_a_problem_that_says_what_to_do(
    body: Any, status: int, told: str, client: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps({"model": "tiny", "input": "a"} | body).encode()
    answer = client.post("/v1/embeddings", content=content, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert answer.status_code == status and told in problem["detail"]
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == answer.headers["x-request-id"]
    error = problem["error"]  # as clients of OpenAI expect it
    assert (error["message"], error["param"]) == (problem["detail"], problem.get("field"))
    assert error["type"] == "invalid_request_error"


def test_a_key_opens_the_routes() -> None:
    with client_of(models=("static-mini",), keys=frozenset([KEY, KEY[::-1]])) as client:
        allowed = {"Authorization": f"Bearer {KEY}"}
        assert client.get("/v1/models", headers=allowed).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {KEY}x"}).status_code == 401
        assert 'route="/v1/models",status="200"' in client.get("/metrics", headers=allowed).text
    with client_of(models=("static-mini",), keys=frozenset()) as client:
        assert client.get("/v1/models", headers=allowed).status_code == 401
        assert client.get("/health").status_code == 200


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
    url = "http://127.0.0.1/v1"
    asked = openai.OpenAI(api_key="any", base_url=url, http_client=client, max_retries=0).embeddings
    answer = asked.create(model="tiny", input=TEXTS[:4])
    np.testing.assert_array_equal(
        np.array([one.embedding for one in answer.data], np.float32), served(client, TEXTS[:4])
    )
    with pytest.raises(openai.APIStatusError, match="unknown model 'none'") as refusal:
        asked.create(model="none", input="a")
    assert (refusal.value.param, refusal.value.type) == ("model", "invalid_request_error")


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
