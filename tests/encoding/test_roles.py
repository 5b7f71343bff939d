"""Queries and documents get the prompts that the model's own encode_query and encode_document give them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router

from sentemb._compat import Pooling, StaticEmbedding, Transformer
from sentemb.encoding import for_role, load_encoder, similarity_of
from sentemb.encoding.tokens import tokens_of

MakeEncoder = Callable[..., SentenceTransformer]
PROMPTS = [
    {"prompts": {"query": "the dog ", "document": "a mat "}},
    {"prompts": {"query": "the dog "}, "default_prompt_name": "query"},
    {"prompts": {"task": "the dog "}, "default_prompt_name": "task"},
    {},
]


@pytest.mark.parametrize("options", PROMPTS)
def test_vectors_are_those_of_the_models_own_methods(
    make_encoder: MakeEncoder, texts: list[str], options: dict[str, object]
) -> None:
    model = make_encoder("mean", **options)
    encoder = load_encoder(model)
    for role, encode in (("query", model.encode_query), ("document", model.encode_document)):
        assert np.allclose(for_role(encoder, role).encode(texts), encode(texts), atol=1e-5), role


def test_a_model_with_a_network_for_each_role(tiny_bert: Path, texts: list[str]) -> None:
    transformer = Transformer(str(tiny_bert))
    router = Router.for_query_document(
        query_modules=[transformer, Pooling(16, "mean")], document_modules=[transformer, Pooling(16, "cls")]
    )
    model = SentenceTransformer(modules=[router], device="cpu")
    encoder = load_encoder(model)
    assert np.allclose(for_role(encoder, "query").encode(texts), model.encode_query(texts), atol=1e-5)
    assert np.allclose(for_role(encoder, "document").encode(texts), model.encode_document(texts), atol=1e-5)


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_of_passages_is_one_of_documents_unless_there_is_one(
    name: str, make_encoder: MakeEncoder, tiny_bert: Path, texts: list[str]
) -> None:
    model = make_encoder("mean", prompts={"query": "the dog ", name: "a mat "})
    router = Router.for_query_document([*model], [*model])
    routed = SentenceTransformer(modules=[router], device="cpu", prompts=model.prompts)
    expected = model.encode(texts, prompt="a mat ")
    for one in (model, routed):  # encoded here, and by the model itself
        found = for_role(load_encoder(one), "document").encode(texts)
        assert np.allclose(found, expected, atol=1e-5)
    model.prompts["document"] = "in park "
    found = for_role(load_encoder(model), "document").encode(texts)
    assert np.allclose(found, model.encode(texts, prompt="in park "), atol=1e-5)


def test_each_route_has_its_own_length(tiny_bert: Path) -> None:
    transformer = Transformer(str(tiny_bert))
    static = StaticEmbedding(transformer.tokenizer.backend_tokenizer, embedding_dim=16)
    router = Router.for_query_document([static], [transformer, Pooling(16, "mean")])
    encoder = load_encoder(SentenceTransformer(modules=[router], device="cpu"))
    assert tokens_of(for_role(encoder, "query")) is None
    tokens = tokens_of(for_role(encoder, "document"))
    assert tokens is not None and tokens.room == 62


def test_encoders_of_the_roles_share_layers_and_warnings(make_encoder: MakeEncoder) -> None:
    encoder = load_encoder(make_encoder("mean", prompts={"query": "the dog "}))
    queries = for_role(encoder, "query")
    assert for_role(encoder, "query") is queries
    assert for_role(queries, "document") is encoder
    assert queries.fingerprint == f"{encoder.fingerprint}-query"


def test_vectors_are_kept_apart_where_roles_differ(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    same = load_encoder(make_encoder("mean"), cache_dir=tmp_path)
    assert for_role(same, "query") is same
    other = load_encoder(make_encoder("mean", prompts={"query": "the dog "}), cache_dir=tmp_path)
    assert for_role(other, "document") is not for_role(other, "query")
    first, second = (for_role(other, role).encode(["a cat"]) for role in ("query", "document"))
    assert not np.allclose(first, second)
    assert np.array_equal(for_role(other, "query").encode(["a cat"]), first)


def test_the_similarity_is_the_models(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    model = make_encoder("mean", similarity_fn_name="dot")
    assert similarity_of(load_encoder(model, cache_dir=tmp_path)) == "dot"
    assert similarity_of(load_encoder(make_encoder("mean"))) == "cosine"
    assert similarity_of(load_encoder(lambda texts: np.ones((len(texts), 2)))) == "cosine"
