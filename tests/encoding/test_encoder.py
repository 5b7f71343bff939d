"""Every form of a model becomes an encoder: folders, functions, word vectors; prompts and routes by role."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router

from sentemb._compat import Pooling, StaticEmbedding, Transformer
from sentemb.encoding import EncoderSpec, for_role, load_encoder, similarity_of
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError

MakeEncoder = Callable[..., SentenceTransformer]
WriteFile = Callable[[str, str | bytes], Path]
GLOVE = "the 1 0 0\ncat 0 1 0\ncat 7 7 7\nwell-known 0 0 1\nUS 5 5 5\n. . . 9 9 9\n, 2 2 2\n"


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), 1.0] for text in texts])


def test_a_folder_has_options_and_a_live_model_is_used_itself(
    tiny_bert: Path, tiny_encoder: SentenceTransformer
) -> None:
    encoder = load_encoder(tiny_bert, pooling="mean", max_length=8, device="cpu")
    assert encoder.name == f"{tiny_bert.name}-mean"
    assert encoder.describe()["max_length"] == 8
    live: Any = load_encoder(tiny_encoder)
    assert live.model is tiny_encoder


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (7, {}, "cannot encode with int"),
        ("no/where", {"pooling": "cls"}, "hub is not reachable"),
        (lengths, {"precision": "int4"}, "unknown precision 'int4'; choose one of float32, reduced"),
        (lengths, {"cache_dir": "."}, r"function .* cannot be cached"),
        (lengths, {"pooling": "cls"}, "pooling does not apply to a function"),
        ("glove.txt", {"max_length": 8}, "max_length does not apply to the word vectors"),
    ],
)
def test_user_errors_are_one_line(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(model, **options)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("runs/mine", "mine"), ("runs/mine/model", "mine"), ("runs/mine/seed-12", "mine-seed-12")],
)
def test_a_model_is_named_by_its_folder(
    folder: str, name: str, tmp_path: Path, tiny_encoder: SentenceTransformer
) -> None:
    tiny_encoder.save(str(tmp_path / folder), create_model_card=False)
    assert load_encoder(tmp_path / folder, device="cpu").name == name
    assert load_encoder(SentenceTransformer(str(tmp_path / folder), device="cpu")).name == name
    tiny_encoder[0].auto_model.config._name_or_path = tiny_encoder[0].auto_model.name_or_path = ""
    assert load_encoder(tiny_encoder).name == "SentenceTransformer"


def test_a_spec_finds_a_model_that_was_moved_with_a_folder(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "index").mkdir(parents=True)
    (before / "words.txt").write_text("small 1 2\n")
    seen = EncoderSpec(str(before / "words.txt")).seen_from(before / "index")
    assert seen.model == "../words.txt"
    before.rename(after)
    located = seen.located(after / "index")
    assert located.model == str((after / "words.txt").resolve())
    np.testing.assert_array_equal(located.load().encode(["small"]), [[1, 2]])
    assert EncoderSpec("static-mini").seen_from(after) == EncoderSpec("static-mini").located(after)
    arguments = {"model": "static-mini", "max_length": 8, "device": "cpu", "cache_dir": "vectors"}
    assert EncoderSpec.of(arguments) == EncoderSpec("static-mini", max_length=8)


# Functions


def test_unique_texts_reach_the_function_once() -> None:
    asked: list[list[str]] = []

    def function(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return lengths(texts)

    vectors = load_encoder(function).encode(["bb", "a", "bb", ""])
    assert asked == [["bb", "a", ""]]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[2, 1], [1, 1], [2, 1], [0, 1]]
    encoder = load_encoder(lengths)
    assert encoder.encode([]).shape == (0, 2)
    assert encoder.name == "lengths" and encoder.fingerprint.endswith(".lengths")


def test_arrays_of_other_libraries() -> None:
    encoder = load_encoder(lambda texts: torch.tensor(lengths(texts), requires_grad=True).bfloat16())
    assert encoder.encode(["abc"]).tolist() == [[3.0, 1.0]]
    assert encoder.dimension == 2
    sizes = iter([2, 3])
    encoder = load_encoder(lambda texts: np.zeros((len(texts), next(sizes))).tolist())
    encoder.encode(["a"])
    with pytest.raises(InputError, match="vectors of 3 dimensions, after 2 before"):
        encoder.encode(["a"])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2), r"shape \(2,\) for 2 texts"),
        (np.zeros((3, 4)), r"shape \(3, 4\) for 2 texts"),
        ([[1.0], [1.0, 2.0]], "is not an array of numbers"),
        (None, "for 2 texts|is not an array of numbers"),
        (np.array([[1.0], [np.nan]]), r"NaN or infinity for text 1 \('b'\), 1 in total"),
        (np.array([[1e300], [1.0]]), "NaN or infinity for text 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_wrong_results_are_named(result: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(lambda texts: result).encode(["a", "b"])


# Word vectors


def test_mean_of_known_words(write_file: WriteFile, caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder(write_file("glove.txt", GLOVE))
    with caplog.at_level(logging.WARNING):
        vectors = encoder.encode(["The cat", "the unheard-of CAT,", "well-known US", "", "us", "The cat"])
    expected = [[0.5, 0.5, 0], [1, 1, 2 / 3], [2.5, 2.5, 3], [0, 0, 0], [0, 0, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert "2 of 5 texts do not contain a known word" in caplog.text
    assert (encoder.name, encoder.dimension, encoder.describe()["words"]) == ("glove.txt", 3, 6)
    assert encoder.encode([]).shape == (0, 3)
    packed = load_encoder(write_file("w.vec.gz", gzip.compress(b"7 3\n" + GLOVE.encode())))
    np.testing.assert_array_equal(packed.encode(["the cat"]), vectors[:1])
    assert encoder.fingerprint == hashlib.sha256(GLOVE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.txt", "5 3\n", "does not contain word vectors"),
        ("g.txt", "cat 1 2\ndog 1 x\n", "line 2: expected 2 numbers"),
        ("g.txt", "cat 1 2\ndog nan 2\n", "line 2: the word is missing, or a number is not finite"),
        ("g.txt", "A sentence of prose.\n", "line 1: expected 3 numbers"),
    ],
)
def test_wrong_files_are_one_line(
    write_file: WriteFile, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_encoder(write_file(name, content))
    assert "\n" not in str(caught.value)


def test_relative_name_is_looked_for_in_the_data_folder(
    write_file: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file("vectors/g.txt", GLOVE)
    assert load_encoder("vectors/g.txt", data_dir=path.parents[1]).dimension == 3
    monkeypatch.setenv("SENTEMB_DATA", str(path.parents[1]))
    assert load_encoder("vectors/g.txt").dimension == 3


# Roles


@pytest.mark.parametrize(
    "options",
    [
        {"prompts": {"query": "the dog ", "document": "a mat "}},
        {"prompts": {"query": "the dog "}, "default_prompt_name": "query"},
        {"prompts": {"task": "the dog "}, "default_prompt_name": "task"},
        {},
    ],
)
def test_vectors_are_those_of_encode_query_and_encode_document(
    make_encoder: MakeEncoder, texts: list[str], options: dict[str, object]
) -> None:
    model = make_encoder("mean", **options)
    encoder = load_encoder(model)
    assert np.allclose(for_role(encoder, "query").encode(texts), model.encode_query(texts), atol=1e-5)
    assert np.allclose(for_role(encoder, "document").encode(texts), model.encode_document(texts), atol=1e-5)


def test_each_route_has_its_own_network_and_length(tiny_bert: Path, texts: list[str]) -> None:
    transformer = Transformer(str(tiny_bert))
    static = StaticEmbedding(transformer.tokenizer.backend_tokenizer, embedding_dim=16)
    router = Router.for_query_document([static], [transformer, Pooling(16, "mean")])
    model = SentenceTransformer(modules=[router], device="cpu")
    queries, documents = (for_role(load_encoder(model), role) for role in ("query", "document"))
    assert np.allclose(queries.encode(texts), model.encode_query(texts), atol=1e-5)
    assert np.allclose(documents.encode(texts), model.encode_document(texts), atol=1e-5)
    assert tokens_of(queries) is None
    tokens = tokens_of(documents)
    assert tokens is not None and tokens.room == 62


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_of_passages_is_one_of_documents_unless_there_is_one(
    name: str, make_encoder: MakeEncoder, texts: list[str]
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


def test_encoders_of_the_roles_share_layers_and_not_vectors(
    make_encoder: MakeEncoder, tmp_path: Path
) -> None:
    encoder = load_encoder(make_encoder("mean", prompts={"query": "the dog "}))
    queries = for_role(encoder, "query")
    assert for_role(encoder, "query") is queries
    assert for_role(queries, "document") is encoder
    assert queries.fingerprint == f"{encoder.fingerprint}-query"
    same = load_encoder(make_encoder("mean"), cache_dir=tmp_path)
    assert for_role(same, "query") is same
    cached = load_encoder(make_encoder("mean", prompts={"query": "the dog "}), cache_dir=tmp_path)
    first, second = (for_role(cached, role).encode(["a cat"]) for role in ("query", "document"))
    assert not np.allclose(first, second)
    assert np.array_equal(for_role(cached, "query").encode(["a cat"]), first)


def test_the_similarity_is_the_models(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    model = make_encoder("mean", similarity_fn_name="dot")
    assert similarity_of(load_encoder(model, cache_dir=tmp_path)) == "dot"
    assert similarity_of(load_encoder(make_encoder("mean"))) == "cosine"
    assert similarity_of(load_encoder(lengths)) == "cosine"
