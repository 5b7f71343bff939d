from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing.document_store import (
    CountDocumentsByFilterTest,
    DocumentStoreBaseExtendedTests,
)

from sentemb.errors import InputError
from sentemb.integrations.haystack import (
    SentembDocumentStore,
    SentembEmbeddingRetriever,
    SentembTextRetriever,
)
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords, FewWords


class Suite(DocumentStoreBaseExtendedTests, CountDocumentsByFilterTest):
    def test_write_documents(self, document_store: SentembDocumentStore) -> None:
        document = Document(content="a text", meta={"n": [1, {"a": None}]})
        assert document_store.write_documents([document]) == 1
        assert document_store.filter_documents() == [document]
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])


class TestInAFolder(Suite):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> SentembDocumentStore:
        return SentembDocumentStore(tmp_path / "index", embedding_dim=768)


class TestWithAnEncoder(Suite):
    @pytest.fixture
    def document_store(self) -> SentembDocumentStore:
        return SentembDocumentStore(encoder=BagOfWords(768))


@pytest.fixture
def store() -> SentembDocumentStore:
    return SentembDocumentStore(encoder=BagOfWords())


def embed(text: str) -> list[float]:
    return BagOfWords().encode([text])[0].tolist()


def find(store: SentembDocumentStore, query: str, **options: Any) -> list[Document]:
    retriever = SentembEmbeddingRetriever(store)
    return retriever.run(query_embedding=embed(query), **options)["documents"]


def test_every_kind_of_document_comes_back_as_it_was(store: SentembDocumentStore) -> None:
    exact = [random.Random(1).random() for _ in range(32)]
    documents = [
        Document(content="w1", meta={"a": {"b": 1}}),
        Document(content="w1", embedding=exact),
        Document(content="w1", embedding=embed("w2")),
        Document(id="empty", content=""),
        Document(content=None),
        Document(content="w3", blob=ByteStream(b"\x00\xff", mime_type="image/png")),
        Document(blob=ByteStream(b"abc"), embedding=embed("w4")),
        Document(content="w5", sparse_embedding=SparseEmbedding([1, 4], [0.5, 0.25]), score=0.5),
        Document(content=f"a\x1f{16 * '0'}", embedding=embed("w6")),
    ]
    assert store.write_documents(documents) == len(documents) == store.count_documents()
    assert store.filter_documents() == documents
    assert find(store, "w4", top_k=1)[0].blob == ByteStream(b"abc")
    assert find(store, "w2", top_k=1)[0].id == documents[2].id
    found = find(store, "w1", top_k=99)
    assert found[0].id == documents[0].id and found[0].score == pytest.approx(1, abs=1e-6)
    assert {one.id for one in found} == {one.id for one in documents} - {documents[3].id, documents[4].id}


def test_long_texts_are_split_and_never_cut() -> None:
    store = SentembDocumentStore(encoder=FewWords(3))
    long = Document(id="long", content="w1 w2 w3 w4 w5 w6 w7")
    with pytest.raises(InputError, match="longer than the 3 tokens of the encoder; write documents without"):
        store.write_documents([long, Document(content="x", embedding=embed("w8"))])
    assert store.write_documents([long, Document(content="w9")]) == 2
    (found,) = SentembTextRetriever(store, "dense", top_k=1).run("w6 w7")["documents"]
    assert found.content == long.content and found.score > 0.5


@pytest.mark.parametrize("mode", ["dense", "keyword", "hybrid"])
def test_a_text_finds_documents_in_each_mode(tmp_path: Path, mode: Any) -> None:
    encodes = SentembDocumentStore(encoder=BagOfWords(), language="en")
    brings = SentembDocumentStore(tmp_path / "index", embedding_dim=32)
    texts = [f"w{n} w{n + 1}" for n in range(9)]
    encodes.write_documents([Document(id=text, content=text, meta={"n": len(text)}) for text in texts])
    brings.write_documents([Document(id=text, content=text, embedding=embed(text)) for text in texts])
    brings.write_documents([Document(id="none", content="w3 w4 w3")])
    found = SentembTextRetriever(encodes, mode, top_k=3).run("w3 w4")["documents"]
    assert [one.id for one in found] == [hit.id for hit in encodes.index.search("w3 w4", 3, mode=mode)]
    assert found[0].id == "w3 w4" and found[0].score > found[1].score
    again = SentembTextRetriever(brings, mode, top_k=20)
    embedding = None if mode == "keyword" else embed("w3 w4")
    found = again.run("w3 w4", embedding)["documents"]
    assert ("none" in {one.id for one in found}) is (mode != "dense")
    assert all(one.content in [*texts, "w3 w4 w3"] for one in found)
    if mode != "keyword":
        with pytest.raises(InputError, match="the store does not have an encoder"):
            again.run("w3 w4")
    pipeline = Pipeline()
    pipeline.add_component("find", again)
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["sentemb.integrations.haystack"])
    assert (
        loaded.run({"find": {"query": "w3 w4", "query_embedding": embedding}})["find"]["documents"] == found
    )


def test_a_new_embedding_of_the_same_text_is_the_one_that_is_searched(store: SentembDocumentStore) -> None:
    for text in ("w1", "w2", "w3"):
        store.write_documents(
            [Document(id="a", content="x", embedding=embed(text))], DuplicatePolicy.OVERWRITE
        )
        assert find(store, text)[0].score == pytest.approx(1, abs=1e-6)
    store.write_documents([Document(id="a", content="x")], DuplicatePolicy.OVERWRITE)
    assert find(store, "x")[0].score == pytest.approx(1, abs=1e-6)


def test_documents_without_a_vector_do_not_stand_before_far_ones() -> None:
    store = SentembDocumentStore(embedding_dim=2)
    far = Document(content="far", embedding=[-1.0, 0.1])
    store.write_documents([Document(content=f"none {n}") for n in range(9)] + [far])
    retriever = SentembEmbeddingRetriever(store)
    assert [one.id for one in retriever.run(query_embedding=[1.0, 0.0], top_k=3)["documents"]] == [far.id]
    other = {"field": "meta.x", "operator": "==", "value": None}
    assert len(retriever.run(query_embedding=[1.0, 0.0], top_k=3, filters=other)["documents"]) == 1


@pytest.mark.parametrize(
    ("policy", "written", "left"),
    [
        (DuplicatePolicy.SKIP, 1, {"a": "old", "b": "first"}),
        (DuplicatePolicy.OVERWRITE, 3, {"a": "new", "b": "second"}),
        (DuplicatePolicy.FAIL, None, {"a": "old"}),
        (DuplicatePolicy.NONE, None, {"a": "old"}),
    ],
)
def test_policies(
    store: SentembDocumentStore, policy: DuplicatePolicy, written: int | None, left: dict[str, str]
) -> None:
    store.write_documents([Document(id="a", content="old")])
    given = [("b", "first"), ("a", "new"), ("b", "second")]
    documents = [Document(id=key, content=text) for key, text in given]
    if written is None:
        with pytest.raises(DuplicateDocumentError, match=r"'[ab]'"):
            store.write_documents(documents, policy)
        with pytest.raises(DuplicateDocumentError, match="'b'"):
            store.write_documents([documents[0], documents[2]], policy)
    else:
        assert store.write_documents(documents, policy) == written
    assert {one.id: one.content for one in store.filter_documents()} == left


FIELDS = ("meta.n", "meta.text", "meta.day", "meta.deep.n", "meta.none")
VALUES = (None, 0, 1, 1.5, -3, "b", "2024-01-31", "2024-01-31T00:00:00", "2024-01-31T02:00:00+02:00")


def random_filter(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    if depth and rng.random() < 0.6:
        parts = [random_filter(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        return {"operator": rng.choice(["AND", "OR", "NOT"]), "conditions": parts}
    field, operator = rng.choice(FIELDS), rng.choice(["==", "!=", ">", ">=", "<", "<=", "in", "not in"])
    value: Any = [rng.choice(VALUES) for _ in range(rng.randint(0, 3))] if "in" in operator else None
    if operator in ("==", "!="):
        value = rng.choice(VALUES)
    elif value is None:  # Haystack's own store refuses to order values of two types, sentemb finds none
        field = rng.choice(["meta.n", "meta.deep.n", "meta.day"])
        value = rng.choice(VALUES[6:] if field == "meta.day" else VALUES[:5])
    return {"field": field, "operator": operator, "value": value}


def test_filters_match_what_they_match_in_the_store_of_haystack() -> None:
    rng = random.Random(3)
    metas = {
        "n": [0, 1, 1.5, 2, None],
        "text": ["a", "b", None],
        "day": ["2024-01-30", "2024-01-31", "2024-01-31T00:00:00+00:00", "2024-02-01T10:00:00Z"],
        "deep": [{"n": 1}, {"n": None}, {}, None],
    }
    documents = [
        Document(
            id=str(n),
            content=f"w{n}",
            meta={name: rng.choice(values) for name, values in metas.items() if rng.random() < 0.8},
        )
        for n in range(60)
    ]
    ours, theirs = SentembDocumentStore(encoder=BagOfWords()), InMemoryDocumentStore()
    for store in (ours, theirs):
        store.write_documents(documents)
    sizes = set()
    for _ in range(300):
        filters = random_filter(rng)
        found = ours.filter_documents(filters)
        assert found == theirs.filter_documents(filters), filters
        assert ours.count_documents_by_filter(filters) == len(found)
        sizes.add(len(found))
    assert len(sizes) > 20


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"field": "content", "operator": "==", "value": "x"}, "use fields of meta"),
        ({"field": "meta.a", "operator": "~", "value": "x"}, "unknown operator '~'"),
        ({"field": "meta.a", "operator": "==", "value": {"x": 1}}, "is not a string, number"),
        ({"field": "meta.a", "operator": ">", "value": True}, "needs a number or a date"),
        ({"operator": "XOR", "conditions": [{"field": "meta.a", "operator": "==", "value": 1}]}, "'XOR'"),
        ({"operator": "AND", "conditions": []}, "does not have conditions"),
        ({"operator": "AND", "conditions": ["a"]}, "is not a dictionary"),
    ],
)
def test_what_is_no_filter_is_named(
    store: SentembDocumentStore, filters: dict[str, Any], message: str
) -> None:
    with pytest.raises(FilterError, match=message):
        store.filter_documents(filters)


def test_a_pipeline_is_written_and_read(tmp_path: Path) -> None:
    store = SentembDocumentStore(tmp_path / "index", embedding_dim=32)
    store.write_documents(
        [
            Document(id=str(n), content=f"w{n}", meta={"n": n, "m": -n}, embedding=embed(f"w{n}"))
            for n in range(9)
        ]
    )
    pipeline = Pipeline()
    few = {"field": "meta.n", "operator": "<", "value": 5}
    pipeline.add_component("find", SentembEmbeddingRetriever(store, few, 3, FilterPolicy.MERGE))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["sentemb.integrations.haystack"])
    query = {"query_embedding": embed("w7"), "filters": {"field": "meta.m", "operator": "<", "value": 0}}
    found = again.run({"find": query})["find"]["documents"]
    assert len(found) == 3 and all(0 < one.meta["n"] < 5 for one in found)
    assert found == pipeline.run({"find": query})["find"]["documents"]
    assert SentembDocumentStore.from_dict(store.to_dict()).filter_documents() == store.filter_documents()


def test_an_index_of_the_command_line_is_a_store(tmp_path: Path) -> None:
    SearchIndex.build([(n, f"w{n}", {"n": n}) for n in range(5)], BagOfWords()).save(tmp_path / "index")
    store = SentembDocumentStore(tmp_path / "index", BagOfWords())
    assert find(store, "w3", top_k=1)[0] == Document(
        "3", "w3", meta={"n": 3}, score=find(store, "w3")[0].score
    )
    store.write_documents([Document(id="3", content="w9")], DuplicatePolicy.OVERWRITE)
    store.delete_documents(["0", "7"])
    assert store.count_documents() == 4


def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "haystack", None)
    for name in [name for name in sys.modules if name.startswith("sentemb.integrations.haystack")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match=r"needs haystack-ai; pip install 'sentemb\[haystack\]'"):
        importlib.import_module("sentemb.integrations.haystack")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda store: SentembDocumentStore(), "needs an encoder or embedding_dim"),
        (
            lambda store: store.write_documents([Document(content="x", embedding=[1.0])]),
            "an embedding of 1 dim",
        ),
        (lambda store: store.write_documents([Document(content="x", meta={"_haystack": 1})]), "is reserved"),
        (
            lambda store: store.write_documents([Document(content="x", meta={"a": {1}})]),
            "cannot be written as JSON",
        ),
        (lambda store: store.to_dict(), "encoder is an object cannot be serialized"),
        (lambda store: find(store, "w1", top_k=-1), "k must be a positive integer"),
    ],
)
def test_what_cannot_be_done_is_named(store: SentembDocumentStore, make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(store)
    assert store.count_documents() == 0
