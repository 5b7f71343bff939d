"""Frameworks with OpenAI clients get the library's vectors from the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_tests.integration_tests import EmbeddingsIntegrationTests

from sentemb.encoding import load_encoder
from tests.serving.live import live

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("openai", reason="needs the openai client, which the test extra brings")

TEXTS = ["a cat sat", "birds fly", "a cat sat"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log: Path = tmp_path_factory.mktemp("frameworks") / "log"
    with live(log, "static-mini") as server:
        yield f"{server.address}/v1"


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return load_encoder("static-mini").encode(TEXTS)


def test_haystack(address: str, expected: np.ndarray) -> None:
    embedders = pytest.importorskip("haystack.components.embedders", reason="needs haystack-ai")
    from haystack import Document
    from haystack.utils import Secret

    options = {"model": "static-mini", "api_base_url": address, "api_key": Secret.from_token("any")}
    one = embedders.OpenAITextEmbedder(**options).run(TEXTS[0])
    np.testing.assert_array_equal(np.array(one["embedding"], np.float32), expected[0])
    documents = [Document(id=str(place), content=text) for place, text in enumerate(TEXTS)]
    found = embedders.OpenAIDocumentEmbedder(progress_bar=False, **options).run(documents)["documents"]
    np.testing.assert_array_equal(np.array([one.embedding for one in found], np.float32), expected)


def test_llama_index(address: str, expected: np.ndarray) -> None:
    openai_like = pytest.importorskip(
        "llama_index.embeddings.openai_like", reason="needs llama-index-embeddings-openai-like"
    )
    embedding = openai_like.OpenAILikeEmbedding(model_name="static-mini", api_base=address, api_key="any")
    np.testing.assert_array_equal(np.array(embedding.get_text_embedding_batch(TEXTS), np.float32), expected)
    np.testing.assert_array_equal(np.array(embedding.get_query_embedding(TEXTS[0]), np.float32), expected[0])


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
        options = {"base_url": self.address, "api_key": "any", "check_embedding_ctx_length": False}
        return {"model": "static-mini", **options}

    def test_vectors_are_the_librarys(self, model: Any, expected: np.ndarray) -> None:
        np.testing.assert_array_equal(np.array(model.embed_documents(TEXTS), np.float32), expected)
        np.testing.assert_array_equal(np.array(model.embed_query(TEXTS[0]), np.float32), expected[0])
