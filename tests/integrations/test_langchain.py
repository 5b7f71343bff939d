from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from sentemb.errors import InputError
from sentemb.integrations.langchain import SentembEmbeddings, SentembVectorStore
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords


class Words(Embeddings):
    """LangChain embeddings without sentemb."""

    model = "words-1"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return BagOfWords().encode(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class OtherWords(Words):
    model = "words-2"


class TestInAFolder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> VectorStore:
        return SentembVectorStore(self.get_embeddings(), tmp_path / "index")


class TestEmbeddings(EmbeddingsUnitTests):
    embeddings_class = SentembEmbeddings
    embedding_model_params = {"model": BagOfWords()}  # noqa: RUF012


class TestEmbeddingsAtWork(EmbeddingsIntegrationTests):
    embeddings_class = SentembEmbeddings
    embedding_model_params = {"model": BagOfWords()}  # noqa: RUF012


@pytest.fixture
def store(tmp_path: Path) -> SentembVectorStore:
    store = SentembVectorStore(Words(), tmp_path / "index")
    store.add_texts(
        [f"w{n} w{n + 1}" for n in range(20)],
        [{"n": n, "lang": "de" if n % 2 else "en"} for n in range(20)],
        ids=[f"id{n}" for n in range(20)],
    )
    return store


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_filters_are_part_of_the_search(store: SentembVectorStore) -> None:
    assert ids(store.similarity_search("w1 w2", 2, filter={"lang": "en", "n": {">": 9}}))[0] is not None
    found = store.similarity_search("w1 w2", 30, filter={"$or": [{"lang": "en"}, {"n": 3}]})
    assert len(found) == 11 and all(one.metadata["lang"] == "en" or one.metadata["n"] == 3 for one in found)
    with pytest.raises(InputError, match="unknown operator"):
        store.similarity_search("w1", filter={"n": {"$gt": 3}})


def test_scores_are_cosines(store: SentembVectorStore) -> None:
    ((document, score), *_) = store.similarity_search_with_score("w5 w6", 1)
    assert document == Document("w5 w6", id="id5", metadata={"n": 5, "lang": "de"})
    assert score == pytest.approx(1, abs=1e-6)
    by_vector = store.similarity_search_by_vector(Words().embed_query("w5 w6"), 3)
    assert by_vector == store.similarity_search("w5 w6", 3)
    relevant = store.similarity_search_with_relevance_scores("w5 w6", k=20, score_threshold=0.4)
    scored = store.similarity_search_with_score("w5 w6", 20)
    assert relevant == [(one, min(score, 1)) for one, score in scored if score >= 0.4]
    assert 1 < len(relevant) < 5


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
def test_marginal_relevance_is_that_of_langchain(store: SentembVectorStore, weight: float) -> None:
    theirs = InMemoryVectorStore(Words())
    theirs.add_documents(store.get_by_ids([f"id{n}" for n in range(20)]))
    for query in ("w1 w5", "w7 w9 w12"):
        options = {"k": 6, "fetch_k": 12, "lambda_mult": weight}
        expected = theirs.max_marginal_relevance_search(query, **options)
        assert store.max_marginal_relevance_search(query, **options) == expected
    assert len(store.max_marginal_relevance_search("w1", 4, filter={"n": {"<": 3}})) == 3
    assert SentembVectorStore(Words()).max_marginal_relevance_search("w1") == []


def test_the_indexing_of_langchain(store: SentembVectorStore) -> None:
    """LangChain's `index` writes new documents and deletes removed ones."""
    records = InMemoryRecordManager("animals")
    records.create_schema()
    before = store.index.count()

    def sync(texts: list[str]) -> dict[str, int]:
        documents = [Document(text, metadata={"source": "a"}) for text in texts]
        return dict(index(documents, records, store, cleanup="full", key_encoder="sha256"))

    assert sync(["w40", "w41", "w42"])["num_added"] == 3
    done = sync(["w41", "w42", "w43"])
    assert (done["num_added"], done["num_deleted"], done["num_skipped"]) == (1, 1, 2)
    assert store.index.count() == before + 3
    assert store.similarity_search("w43", 1)[0].page_content == "w43"


def test_words_and_both(store: SentembVectorStore) -> None:
    for mode in ("keyword", "hybrid"):
        expected = store.index.search("w5 w6 w12", 5, mode=mode, where={"lang": "en"})
        scored = store.similarity_search_with_score("w5 w6 w12", 5, mode=mode, filter={"lang": "en"})
        assert [(one.id, score) for one, score in scored] == [(hit.id, hit.score) for hit in expected]
    assert store.similarity_search("w99", 5, mode="keyword") == []
    retriever = store.as_retriever(search_kwargs={"k": 1, "mode": "hybrid"})
    assert ids(retriever.invoke("w5 w6")) == ["id5"]
    with pytest.raises(TypeError, match="mode"):
        store.similarity_search_with_relevance_scores("w5 w6", mode="hybrid")


def test_a_folder_opens_again_with_the_same_embeddings_alone(
    store: SentembVectorStore, tmp_path: Path
) -> None:
    again = SentembVectorStore(Words(), tmp_path / "index")
    assert again.similarity_search("w5 w6", 3) == store.similarity_search("w5 w6", 3)
    again.delete(["id5"])
    assert store.get_by_ids(["id5", "id6"]) == again.get_by_ids(["id6"])
    with pytest.raises(InputError, match="model=words-1"):
        SentembVectorStore(OtherWords(), tmp_path / "index")
    store.delete()
    assert again.similarity_search("w5") == []


def test_texts_of_a_generator_and_blank_ones(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store = SentembVectorStore.from_texts(
            (text for text in ["w1", " ", "w2"]), Words(), ids=["a", "b", "c"]
        )
    assert "1 blank documents were skipped" in caplog.text
    assert ids(store.get_by_ids(["a", "b", "c"])) == ["a", "c"]
    made = store.add_documents([Document("w3", id="d"), Document("w4")])
    assert made[0] == "d" and len(made[1]) == 36


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", "b"], {"ids": ["1"]}, "2 texts, but 1 ids"),
        (["a"], {"metadatas": [{}, {}]}, "1 texts, but 2 metadatas"),
        (["a", "b"], {"ids": ["1", "1"]}, "'1' occurs twice"),
        (["a"], {"metadatas": [{"when": {1, 2}}]}, "metadata cannot be written as JSON"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    store: SentembVectorStore, texts: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        store.add_texts(texts, **options)
    assert store.index.count() == 20


def test_an_index_of_the_command_line_is_a_store(tmp_path: Path) -> None:
    """Its ids are integers, those of LangChain are strings."""
    SearchIndex.build([f"w{n}" for n in range(5)], BagOfWords()).save(tmp_path / "index")
    store = SentembVectorStore(SentembEmbeddings(BagOfWords()), tmp_path / "index")
    assert ids(store.similarity_search("w3", 1)) == ["3"]
    store.add_texts(["w30"], ids=["3"])
    assert store.get_by_ids(["3", "03"]) == [Document("w30", id="3")]
    store.delete(["3", "4"])
    assert store.index.count() == 3


def test_inner_products_are_no_relevance() -> None:
    store = SentembVectorStore.from_texts(["w1"], Words(), metric="dot")
    assert store.similarity_search_with_score("w1")[0][1] == pytest.approx(
        float(np.square(Words().embed_query("w1")).sum()), rel=1e-5
    )
    with pytest.raises(InputError, match="not relevance scores"):
        store.similarity_search_with_relevance_scores("w1")


def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core.documents", None)
    monkeypatch.delitem(sys.modules, "sentemb.integrations.langchain")
    with pytest.raises(InputError, match=r"needs langchain-core; pip install 'sentemb\[langchain\]'"):
        importlib.import_module("sentemb.integrations.langchain")


def test_the_fake_embeddings_of_langchain_have_a_name() -> None:
    store = SentembVectorStore(DeterministicFakeEmbedding(size=6))
    assert store.index.manifest.dimension == 6
    assert "DeterministicFakeEmbedding" in store.index.manifest.encoder.name
