"""Every interface of an index returns the results that `eval retrieval` measures, for every kind of model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb._compat import Pooling, Router, StaticEmbedding, Transformer
from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.encoding import load_encoder
from sentemb.encoding.shards import Row, ShardFolder, encode_shards
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_retrieval
from sentemb.evaluation.retrieval.searchers import DenseSearcher
from sentemb.search import SearchIndex
from sentemb.search.folder import read_manifest
from tests.cli.conftest import Command, sentemb
from tests.conftest import WORDS

__all__ = ["sentemb"]  # a fixture

K = 10
_WORDS = [word for word in WORDS if not word.startswith("##")]
_ROUTED = {"query": "the dog ", "document": "a mat in "}
# Each kind of model by its options; the modules of a Router are made below.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompts": {"prompts": _ROUTED},
    "default prompt": {"prompts": {"task": "the dog "}, "default_prompt_name": "task"},
    "dot": {"prompts": _ROUTED, "similarity_fn_name": "dot"},
    "static router": {"similarity_fn_name": "dot"},
}
# Kinds in which everything depends on the role: prompts with the inner product, and modules of its own.
WITH_ROLES = ["dot", "static router"]
Ranking = list[tuple[str, float]]
Ask = Callable[[str], Ranking]


def modules_of(kind: str, bert: Path) -> list[Any]:
    transformer = Transformer(str(bert))
    if kind == "static router":
        static = StaticEmbedding(transformer.tokenizer.backend_tokenizer, embedding_dim=16)
        return [Router.for_query_document([static], [transformer, Pooling(16, "mean")])]
    return [transformer, Pooling(16, "mean")]


@pytest.fixture(scope="session")
def models(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for kind, options in KINDS.items():
        SentenceTransformer(modules=modules_of(kind, tiny_bert), device="cpu", **options).save_pretrained(
            str(folder / kind)
        )
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture(scope="session")
def data() -> RetrievalSet:
    generator = np.random.default_rng(0)
    # Lengths of their own keep texts apart, so that no two scores tie.
    documents = {
        f"d{number:02}": " ".join(generator.choice(_WORDS, size=3 + number % 9)) for number in range(40)
    }
    queries = {f"q{number}": " ".join(generator.choice(_WORDS, size=2 + number)) for number in range(4)}
    return retrieval_set(documents, queries, {name: {"d01": 1} for name in queries}, name="words")


def measured(model: Any, data: RetrievalSet) -> dict[str, Ranking]:
    """Return the results of `eval retrieval` for each query."""
    found = DenseSearcher(load_encoder(model)).search(data, K)
    return {
        query: [
            (data.document_ids[place], score)
            for place, score in zip(hits.documents.tolist(), hits.scores.tolist(), strict=True)
        ]
        for query, hits in zip(data.queries, found, strict=True)
    }


def assert_delivers(ask: Ask, model: Any, data: RetrievalSet) -> None:
    for query, expected in measured(model, data).items():
        found = ask(query)
        assert [name for name, _ in found] == [name for name, _ in expected]
        scores = [score for _, score in found], [score for _, score in expected]
        # Rounding of float32: faiss and BLAS add the products of a score in different orders.
        np.testing.assert_allclose(*scores, rtol=4e-7, atol=1e-6)


def rows_of(data: RetrievalSet) -> list[tuple[str, str]]:
    return list(zip(data.document_ids, data.documents, strict=True))


def asking(index: SearchIndex) -> Ask:
    return lambda query: [(str(hit.id), hit.score) for hit in index.search(query, K)]


def encoded(model: Path, data: RetrievalSet, folder: Path, **options: Any) -> ShardFolder:
    rows = [Row(name, text, {}, name) for name, text in rows_of(data)]
    return encode_shards(rows, folder, {"model": str(model)}, source="words", **options).folder


@pytest.fixture(params=WITH_ROLES)
def model(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    return models[request.param]


def written(data: RetrievalSet, folder: Path) -> Path:
    """Write the documents to a file."""
    path = folder / "documents.jsonl"
    path.write_text("\n".join(json.dumps({"id": name, "text": text}) for name, text in rows_of(data)))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_in_memory_on_disk_and_changed(
    kind: str, models: dict[str, Path], data: RetrievalSet, tmp_path: Path
) -> None:
    rows, model = rows_of(data), models[kind]
    built = SearchIndex.build(rows, model)
    assert_delivers(asking(built), model, data)
    built.save(tmp_path / "index")
    assert_delivers(asking(SearchIndex.load(tmp_path / "index")), model, data)
    SearchIndex.build([*rows[:20], ("d20", "the text differs")], model).save(tmp_path / "changed")
    index = SearchIndex.load(tmp_path / "changed")
    index.update(rows[20:22])
    index.add(rows[22:])
    assert_delivers(asking(index), model, data)
    index.compact()
    assert_delivers(asking(SearchIndex.load(tmp_path / "changed")), model, data)


def test_from_what_encode_wrote_in_a_folder_and_in_lancedb(
    model: Path, data: RetrievalSet, tmp_path: Path
) -> None:
    shards = encoded(model, data, tmp_path / "vectors")
    assert shards.settings.role == "document"
    assert_delivers(asking(SearchIndex.build(shards)), model, data)
    stored = evaluate_retrieval(model, [data], vectors=shards.path)
    assert stored.scores == evaluate_retrieval(model, [data]).scores
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    from sentemb.search.move import fill_lancedb

    address = f"lancedb:{tmp_path / 'lance'}"
    fill_lancedb(shards, address)
    index = SearchIndex.open(address)
    assert_delivers(asking(index), model, data)
    index.delete(["d03", "d04"])
    index.add([row for row in rows_of(data) if row[0] in ("d03", "d04")])
    assert_delivers(asking(index), model, data)


def test_on_the_command_line(model: Path, data: RetrievalSet, tmp_path: Path, sentemb: Command) -> None:
    documents = written(data, tmp_path)
    code, _, err = sentemb(
        "index", "build", documents, "-o", tmp_path / "index", "-m", model, "--id-column", "id"
    )
    assert code == 0, err

    def ask(query: str) -> Ranking:
        hits = json.loads(sentemb("index", "search", tmp_path / "index", query, "-k", K, "--json")[1])["hits"]
        return [(hit["id"], hit["score"]) for hit in hits]

    assert_delivers(ask, model, data)


def test_served(model: Path, data: RetrievalSet, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    pytest.importorskip("httpx", reason="needs httpx, which the test extra brings")
    from fastapi.testclient import TestClient

    from sentemb.serving.app import create_app
    from sentemb.serving.settings import Settings

    rows = rows_of(data)
    SearchIndex.build(rows[:30], model).save(tmp_path / "words")
    app = create_app(Settings(models=(str(model),), indexes=(tmp_path / "words",)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        new = [{"id": name, "text": text} for name, text in rows[30:]]
        answer = client.post("/v1/indexes/words/documents", json={"documents": new})
        assert answer.status_code < 300, answer.text

        def ask(query: str) -> Ranking:
            asked = {"query": query, "k": K, "mode": "dense"}
            hits = client.post("/v1/indexes/words/search", json=asked).json()["hits"]
            return [(hit["id"], hit["score"]) for hit in hits]

        assert_delivers(ask, model, data)
        assert [one["id"] for one in client.get("/v1/models").json()["data"]] == [model.name]


def test_in_langchain(model: Path, data: RetrievalSet, tmp_path: Path) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from sentemb.integrations.langchain import SentembEmbeddings, SentembVectorStore

    store = SentembVectorStore(SentembEmbeddings(str(model)), tmp_path / "store")
    store.add_texts(data.documents, ids=data.document_ids)

    def ask(query: str) -> Ranking:
        scored = store.similarity_search_with_score(query, K)
        return [(str(document.id), score) for document, score in scored]

    assert_delivers(ask, model, data)
    assert_delivers(asking(SearchIndex.load(tmp_path / "store")), model, data)


def test_in_haystack(model: Path, data: RetrievalSet, tmp_path: Path) -> None:
    pytest.importorskip("haystack", reason="needs the extra haystack")
    from haystack import Document

    from sentemb.integrations.haystack import SentembDocumentStore, SentembTextRetriever

    store = SentembDocumentStore(tmp_path / "store", str(model))
    brought = Document(id="brought", content="a cat", embedding=[0.0] * 16)
    store.write_documents([brought, *(Document(id=name, content=text) for name, text in rows_of(data))])
    store.delete_documents(["brought"])
    retriever = SentembTextRetriever(store, mode="dense", top_k=K)

    def ask(query: str) -> Ranking:
        return [(found.id, found.score or 0.0) for found in retriever.run(query)["documents"]]

    assert_delivers(ask, model, data)


def test_the_manifest_and_info_name_the_prompts(
    model: Path, data: RetrievalSet, tmp_path: Path, sentemb: Command
) -> None:
    SearchIndex.build(rows_of(data), model).save(tmp_path / "index")
    facts = read_manifest(tmp_path / "index").encoder
    encoder = load_encoder(model)
    assert (facts.role, facts.fingerprint) == ("document", f"{encoder.fingerprint}-document")
    printed = sentemb("index", "info", tmp_path / "index")[1]
    for role in ("query", "document"):
        prompt = facts.details["prompts"][role]
        assert not prompt or f"{role} {prompt!r}" in printed
    assert ("routes of the model" in printed) == ("router" in model.name)
    assert "build it again" not in printed


def test_shards_of_another_role_are_refused(
    models: dict[str, Path], data: RetrievalSet, tmp_path: Path, sentemb: Command
) -> None:
    model = models["prompts"]
    queries = encoded(model, data, tmp_path / "queries", role="query")
    with pytest.raises(
        InputError, match="contains vectors of queries, not of documents; encode the documents"
    ):
        SearchIndex.build(queries)
    with pytest.raises(InputError, match="contains vectors of queries"):
        evaluate_retrieval(model, [data], vectors=queries.path)
    documents = encoded(model, data, tmp_path / "documents")
    manifest = json.loads((documents.path / "shards.json").read_text())
    del manifest["settings"]["role"]
    manifest["settings"]["fingerprint"] = load_encoder(model).fingerprint
    (documents.path / "shards.json").write_text(json.dumps(manifest))
    code, _, err = sentemb("index", "build", documents.path, "-o", tmp_path / "index")
    assert code == 2
    assert "was encoded without the document prompt or route of prompts" in err
    assert "sentemb encode --role document" in err


def test_a_run_of_encode_resumes_with_its_role_alone(
    models: dict[str, Path], data: RetrievalSet, tmp_path: Path, sentemb: Command
) -> None:
    model = models["prompts"]
    folder = tmp_path / "vectors"

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoded(model, data, folder, shard_size=10, progress=interrupt)
    command = [
        "encode",
        written(data, tmp_path),
        "-o",
        folder,
        "-m",
        model,
        "--id-column",
        "id",
        "--shard-size",
        10,
    ]
    code, _, err = sentemb(*command, "--role", "query")
    assert (code, "with a different fingerprint, role" in err) == (2, True)
    assert sentemb(*command)[0] == 0
    assert ShardFolder(folder).settings.role == "document"


def test_workers_use_the_role(models: dict[str, Path], data: RetrievalSet, tmp_path: Path) -> None:
    from sentemb.encoding.workers import local_pool

    alone = encoded(models["prompts"], data, tmp_path / "alone", shard_size=20)
    shared = encoded(models["prompts"], data, tmp_path / "shared", shard_size=20, pool=local_pool(2))
    assert [path.read_bytes() for path in alone.files] == [path.read_bytes() for path in shared.files]


def test_distances_are_never_taken_for_cosines_in_silence(
    tiny_bert: Path, data: RetrievalSet, tmp_path: Path, sentemb: Command, caplog: pytest.LogCaptureFixture
) -> None:
    model = tmp_path / "model"
    plain = modules_of("plain", tiny_bert)
    SentenceTransformer(modules=plain, device="cpu", similarity_fn_name="euclidean").save_pretrained(
        str(model)
    )
    documents = written(data, tmp_path)
    command = ["index", "build", documents, "-o", tmp_path / "index", "-m", model, "--id-column", "id"]
    code, _, err = sentemb(*command)
    assert code == 2
    assert "was trained for the euclidean distance" in err
    assert "--metric cosine" in err
    assert sentemb(*command, "--metric", "cosine")[0] == 0
    assert_delivers(asking(SearchIndex.load(tmp_path / "index")), model, data)
    assert sum("compared by" in record.message for record in caplog.records) == 1


def test_a_chosen_metric_wins_and_an_upgrade_follows_the_model(
    models: dict[str, Path], data: RetrievalSet, tmp_path: Path
) -> None:
    rows = rows_of(data)
    assert SearchIndex.build(rows, models["dot"]).manifest.metric == "dot"
    assert SearchIndex.build(rows, models["dot"], metric="cosine").manifest.metric == "cosine"
    SearchIndex.build(rows, models["plain"]).save(tmp_path / "index")
    upgraded = SearchIndex.upgrade(tmp_path / "index", str(models["dot"]))
    assert upgraded.manifest.metric == "dot"
    assert_delivers(asking(upgraded), models["dot"], data)
    shutil.rmtree(tmp_path / "index")
    SearchIndex.build(rows, models["dot"], metric="cosine").save(tmp_path / "index")
    assert SearchIndex.upgrade(tmp_path / "index", str(models["plain"])).manifest.metric == "cosine"
    shutil.rmtree(tmp_path / "index")
    SearchIndex.build(rows, models["plain"], metric="dot").save(tmp_path / "index")
    assert SearchIndex.upgrade(tmp_path / "index", str(models["prompts"])).manifest.metric == "dot"
