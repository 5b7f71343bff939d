"""Clients of a server in a separate process, also those of frameworks, return the results of the library."""

from __future__ import annotations

import asyncio
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_tests.integration_tests import EmbeddingsIntegrationTests

import sentemb
from sentemb import AsyncClient, Client
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.search import Document, SearchIndex
from tests.serving.conftest import TEXTS
from tests.serving.live import live
from tests.serving.models import cross_encoder

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, animals: Path) -> Path:
    return Path(shutil.copytree(animals, tmp_path_factory.mktemp("indexes") / "odd name"))


@pytest.fixture(scope="module")
def address(folder: Path, tiny_bert: Path) -> Iterator[str]:
    log = folder.parent / "log"
    reranker = cross_encoder(tiny_bert, folder.parent / "cross")
    arguments = ["static-mini", "--index", folder, "--reranker", reranker]
    with live(log, *arguments, SENTEMB_API_KEYS=KEY) as server:
        yield server.address
        assert server.stop() in (0, -signal.SIGTERM, 143)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    with Client(address, KEY) as opened:
        yield opened


def test_vectors_are_the_librarys_in_any_number(client: Client) -> None:
    texts = [f"{place} {TEXTS[place % len(TEXTS)]}" for place in range(2500)]
    expected = load_encoder("static-mini").encode(texts)
    np.testing.assert_array_equal(client.encode(texts), expected)
    assert client.encode([]).shape == (0, expected.shape[1])
    with pytest.raises(InputError, match="list"):
        client.encode("one text")


def test_an_index_is_searched_and_changed(client: Client, folder: Path) -> None:
    index = folder.name
    where = {"year": {">=": 2010}}
    hits = client.search(index, TEXTS[12], 5, mode="hybrid", where=where)
    expected = SearchIndex.load(folder).search(TEXTS[12], 5, mode="hybrid", where=where)
    assert [(hit.id, hit.text, hit.snippet) for hit in hits] == [
        (hit.id, hit.text, hit.snippet) for hit in expected
    ]
    SearchIndex.load(folder).calibrate([f"an unknown thing {number}" for number in range(19)], [[]] * 19)
    assert "no document seems to answer this" in client.search(index, "tariffs", abstain=True).reason
    assert client.search(index, TEXTS[12], 1, abstain=True)[0].p_value == 0.05
    new = [("new", "a zebra", {"year": 1}), Document("a tapir", "7"), "a text that gets its own id"]
    assert client.add(index, new)[:3] == (3, 0, 0)
    assert client.update(index, [("7", "a gnu")]).replaced == 1
    assert client.get(index, ["new", "7", 7, "none"]) == [
        Document("a zebra", "new", {"year": 1}),
        Document("a gnu", "7"),
        Document(TEXTS[7], 7, {"year": 2007}),
        None,
    ]
    assert client.stats(index)["documents"] == len(TEXTS) + 3
    (own,) = client.search(index, "a text that gets its own id", 1)
    assert client.delete(index, ["new", "7", "none", own.id]) == 3
    assert len(SearchIndex.load(folder)) == len(TEXTS)


def test_a_filter_that_cannot_match_is_logged(
    client: Client, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.search(folder.name, "cat", where={"yaer": 1}) == []
    assert (
        caplog.messages[-1]
        == "the conditions cannot match any document: none of the documents has the field 'yaer'"
    )


def test_documents_are_ranked(client: Client) -> None:
    ranked = client.rerank("cat", TEXTS[:5], model="cross")
    assert sorted(one.index for one in ranked) == [0, 1, 2, 3, 4]
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    assert client.rerank("cat", TEXTS[:5], model="cross", k=2) == ranked[:2]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda client, index: client.search("none", "a"), "unknown index 'none'"),
        (lambda client, index: client.search(index, "a", where={"year": {"~": 1}}), "where"),
        (lambda client, index: client.add(index, [(0, "taken")]), "already in the index"),
        (lambda client, index: client.add(index, ["fine", 5]), "document 1"),
        (lambda client, index: client.add(index, "one text"), "single value"),
        (lambda client, index: client.add(index, [("x", "a", {"y": {1}})]), "cannot be sent as JSON"),
        (lambda client, index: client.encode(["half \ud800"]), "cannot be sent as JSON"),
        (lambda client, index: client.encode(["a"], model="none"), "static-mini"),
    ],
)
def test_what_the_server_refuses_is_told_in_one_line(
    call: Any, told: str, client: Client, folder: Path
) -> None:
    with pytest.raises(InputError, match=told):
        call(client, folder.name)


def test_the_wrong_key_and_no_server_are_told(address: str) -> None:
    with pytest.raises(InputError, match="API key is not valid"):
        Client(address, KEY[::-1]).encode(["a"])
    with pytest.raises(InputError, match="sentemb serve"):
        Client("http://127.0.0.1:9").encode(["a"])
    with pytest.raises(InputError, match="not a URL"):
        Client("http://[::1")


@contextmanager
def answering(body: bytes, status: Callable[[], int]) -> Iterator[tuple[str, list[str]]]:
    """Run a server that gives every request the same answer; yield its address and the requested paths."""
    requests: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(status())
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """Set a proxy for all addresses that cannot reach any."""
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with answering(b"<html>", lambda: 502) as (address, requests):
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, address.replace("://", "://user:secret@"))
        yield address, requests


def stats(kind: type, url: str) -> Any:
    """Ask a server for the statistics of an index with either client."""
    client = kind(url, KEY, retries=0)
    return client.stats("odd name") if kind is Client else asyncio.run(client.stats("odd name"))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_this_machine_is_reached_without_a_proxy(kind: type, address: str, proxy: Any) -> None:
    for url in (address, address.replace("127.0.0.1", "localhost")):
        assert stats(kind, url)["documents"] == len(TEXTS)
    assert proxy[1] == []
    with pytest.raises(InputError, match=r"cannot reach .*sentemb serve"):
        stats(kind, "http://127.0.0.1:9")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_proxy_is_named_without_its_credentials(
    kind: type, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        RuntimeError, match=f"through the proxy {proxy[0]} answered with status 502"
    ) as refusal:
        stats(kind, "http://server.invalid")
    assert len(proxy[1]) == 1 and "secret" not in str(refusal.value)
    monkeypatch.setenv("http_proxy", "user:secret@127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "user:secret@127.0.0.1:9")
    with pytest.raises(InputError, match=r"proxy http://127.0.0.1:9: .*NO_PROXY=server.invalid") as failure:
        stats(kind, "http://server.invalid")
    assert "secret" not in str(failure.value)


def test_awaited_calls_return_the_same(address: str, client: Client, folder: Path) -> None:
    async def all_of() -> list[Any]:
        async with AsyncClient(address, KEY) as awaited:
            calls = [awaited.encode([text]) for text in TEXTS]
            found = awaited.search(folder.name, TEXTS[3])
            return [*(await asyncio.gather(*calls)), await found]

    *rows, hits = asyncio.run(all_of())
    np.testing.assert_array_equal(np.concatenate(rows), client.encode(TEXTS))
    assert hits == client.search(folder.name, TEXTS[3])


def test_a_busy_server_is_asked_again_and_given_up_in_the_end() -> None:
    statuses = [429, 503, 200]

    def status() -> int:
        return statuses.pop(0) if len(statuses) > 1 else statuses[0]  # the last one for ever

    with answering(b'{"detail": "busy"}', status) as (address, _), Client(address, retries=2) as client:
        assert client.stats("a") == {"detail": "busy"}
        statuses[:] = [429]
        with pytest.raises(InputError, match="busy"):
            client.stats("a")
        statuses[:] = [500]
        with pytest.raises(RuntimeError, match="500"):
            client.stats("a")


def test_the_clients_have_the_same_methods() -> None:
    methods = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
    assert methods[0] == methods[1] and sentemb.Client is Client


FEW = ["a cat sat", "birds fly", "a cat sat"]


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return load_encoder("static-mini").encode(FEW)


def test_haystack(address: str, expected: np.ndarray) -> None:
    embedders = pytest.importorskip("haystack.components.embedders", reason="needs haystack-ai")
    from haystack import Document as HaystackDocument
    from haystack.utils import Secret

    key = Secret.from_token(KEY)
    options = {"model": "static-mini", "api_base_url": f"{address}/v1", "api_key": key}
    one = embedders.OpenAITextEmbedder(**options).run(FEW[0])
    np.testing.assert_array_equal(np.array(one["embedding"], np.float32), expected[0])
    documents = [HaystackDocument(id=str(place), content=text) for place, text in enumerate(FEW)]
    found = embedders.OpenAIDocumentEmbedder(progress_bar=False, **options).run(documents)["documents"]
    np.testing.assert_array_equal(np.array([one.embedding for one in found], np.float32), expected)


def test_llama_index(address: str, expected: np.ndarray) -> None:
    openai_like = pytest.importorskip(
        "llama_index.embeddings.openai_like", reason="needs llama-index-embeddings-openai-like"
    )
    options = {"model_name": "static-mini", "api_base": f"{address}/v1", "api_key": KEY}
    embedding = openai_like.OpenAILikeEmbedding(**options)
    np.testing.assert_array_equal(np.array(embedding.get_text_embedding_batch(FEW), np.float32), expected)
    np.testing.assert_array_equal(np.array(embedding.get_query_embedding(FEW[0]), np.float32), expected[0])


class TestLangChain(EmbeddingsIntegrationTests):
    """LangChain's own tests of embeddings, and the vectors."""

    address: str

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _served(cls, address: str) -> None:
        cls.address = address

    @property
    def embeddings_class(self) -> Any:
        return pytest.importorskip("langchain_openai", reason="needs langchain-openai").OpenAIEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        options = {"base_url": f"{self.address}/v1", "api_key": KEY, "check_embedding_ctx_length": False}
        return {"model": "static-mini", **options}

    def test_vectors_are_the_librarys(self, model: Any, expected: np.ndarray) -> None:
        np.testing.assert_array_equal(np.array(model.embed_documents(FEW), np.float32), expected)
        np.testing.assert_array_equal(np.array(model.embed_query(FEW[0]), np.float32), expected[0])
