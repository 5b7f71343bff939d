"""Whitening is chosen by dev queries, and put where it costs least."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer

from sentemb.adaptation.held_out import RememberingSearcher, hold_out, mean_of
from sentemb.adaptation.whitening import Whitening, whiten, whitenings
from sentemb.data.own_documents import OwnDocument
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.transforms import fit_soft_whitening

TEXTS = ["the cat sat on the mat", "two birds fly", "a man plays guitar", "red park"]


def static(tokenizer: Tokenizer, *, shared: float, normalised: bool = True) -> SentenceTransformer:
    """Random token vectors, and one direction that all have in common."""
    weights = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    weights[:, 0] += shared
    modules = [StaticEmbedding(tokenizer, embedding_weights=weights), *[Normalize()] * normalised]
    return SentenceTransformer(modules=modules, device="cpu")


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))


@pytest.mark.parametrize("normalised", [True, False])
def test_a_static_model_stays_static_and_gives_the_whitened_vectors(
    tokenizer: Tokenizer, normalised: bool
) -> None:
    model = static(tokenizer, shared=3.0, normalised=normalised)
    vectors = model.encode(TEXTS)
    layer = fit_soft_whitening(vectors, 1.0)
    found = whiten(model, layer)
    assert [type(module) for module in found] == [type(module) for module in model]
    expected = vectors @ layer.linear.weight.detach().numpy().T
    if normalised:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_array_equal(model.encode(TEXTS), vectors)  # as it was


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_what_is_chosen_by_is_what_the_whitened_model_gives(
    tokenizer: Tokenizer, similarity: str, normalised: bool
) -> None:
    model = static(tokenizer, shared=3.0, normalised=normalised)
    model.similarity_fn_name = similarity
    base = RememberingSearcher(model, name="base")
    layer = fit_soft_whitening(base.vectors(TEXTS, "document"), 1.0)
    chosen_by = Whitening(1.0, layer, 0.0).searcher(base, name="whitened").vectors(TEXTS, "query")
    given = RememberingSearcher(whiten(model, layer), name="model").vectors(TEXTS, "query")
    np.testing.assert_allclose(chosen_by, given, atol=1e-4)
    lengths = np.linalg.norm(given, axis=1)
    assert np.allclose(lengths, 1, atol=1e-4) == (normalised or similarity == "cosine")


def test_another_model_ends_in_the_map_which_is_not_trained(tiny_bert: Path) -> None:
    model = SentenceTransformer(str(tiny_bert))
    layer = fit_soft_whitening(model.encode(TEXTS), 1.0)
    found = whiten(model, layer)
    expected = model.encode(TEXTS) @ layer.linear.weight.numpy().T
    np.testing.assert_allclose(found.encode(TEXTS), expected, atol=1e-4)
    assert not any(parameter.requires_grad for parameter in layer.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_best_on_dev_queries_comes_first_and_what_does_not_help_is_left_out(
    documents: list[OwnDocument], tokenizer: Tokenizer
) -> None:
    parts = hold_out(documents, language="en", seed=1)
    base = RememberingSearcher(static(tokenizer, shared=20.0), name="base")
    before = mean_of(evaluate_retrieval(base, parts.dev))
    found = whitenings(base, parts.train, parts.dev, seed=1)
    scores = [one.score for one in found]
    assert scores
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > before
    best = RememberingSearcher(whiten(static(tokenizer, shared=20.0), found[0].layer), name="best")
    same = found[0].searcher(base, name="same")
    np.testing.assert_allclose(best.vectors(TEXTS, "query"), same.vectors(TEXTS, "query"), atol=1e-4)
    assert mean_of(evaluate_retrieval(best, parts.dev)) == pytest.approx(scores[0], abs=0.1)
    assert len(whitenings(best, parts.train, parts.dev, seed=1)) < len(found)  # it is white already
