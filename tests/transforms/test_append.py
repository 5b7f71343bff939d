"""A fitted transform becomes part of a model: at its end, before its normalisation, saved and loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import sentemb
from sentemb._compat import Dense, Normalize
from sentemb.encoding.sentence import encode_with_dropout, is_plain_text_model
from sentemb.errors import InputError
from sentemb.modules import FlowModule, load
from sentemb.transforms import FlowConfig, add_flow, add_whitening, fit_whitening
from sentemb.transforms.fit import append_transform
from tests.conftest import WORDS

TEXTS = [f"{a} {b} {c}" for a in WORDS[:8] for b in WORDS[8:16] for c in ("sat", "in the park")]


@pytest.fixture
def encoder(tiny_bert: Path) -> SentenceTransformer:
    return load(tiny_bert, pooling="last-2", device="cpu")


@pytest.fixture
def normalised(tiny_bert: Path) -> SentenceTransformer:
    built = load(tiny_bert, pooling="mean", device="cpu")
    return SentenceTransformer(
        modules=[*built, Normalize()],
        device="cpu",
        prompts={"query": "the "},
        default_prompt_name="query",
        similarity_fn_name="dot",
    )


def test_whitening_needs_only_sentence_transformers(encoder: SentenceTransformer, tmp_path: Path) -> None:
    vectors = encoder.encode(TEXTS)
    model = add_whitening(encoder, TEXTS, dimensions=6)
    expected = fit_whitening(vectors, 6)({"sentence_embedding": torch.from_numpy(vectors)})[
        "sentence_embedding"
    ]
    np.testing.assert_allclose(model.encode(TEXTS), expected.detach(), atol=1e-3)
    assert encoder.encode(TEXTS[:1]).shape == (1, 16)  # unchanged
    model.save(str(tmp_path / "model"))
    entries = json.loads((tmp_path / "model" / "modules.json").read_text())
    assert all(entry["type"].startswith("sentence_transformers.") for entry in entries)
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), model.encode(TEXTS), atol=1e-4)


def test_a_model_that_normalises_goes_on_doing_so(normalised: SentenceTransformer) -> None:
    # The average of a last LayerNorm lies in a hyperplane, so that 15 of 16 dimensions vary.
    whitened = add_whitening(normalised, TEXTS)
    assert [type(module) for module in list(whitened)[2:]] == [Dense, Normalize]
    assert whitened.get_embedding_dimension() == 15
    flowed = add_flow(normalised, TEXTS, config=FlowConfig(width=4))
    assert [type(module) for module in list(flowed)[2:]] == [FlowModule, Normalize]
    bare = SentenceTransformer(modules=list(normalised)[:2], device="cpu")
    raw = torch.from_numpy(bare.encode(["the " + text for text in TEXTS]))  # with the default prompt
    expected = torch.nn.functional.normalize(flowed[2].transform(raw)[0])
    np.testing.assert_allclose(flowed.encode(TEXTS), expected.detach(), atol=1e-4)
    for model in (whitened, flowed):
        np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS), axis=1), 1, atol=1e-5)
        assert is_plain_text_model(model)
        assert (model.default_prompt_name, model.similarity_fn_name) == ("query", "dot")


def test_a_flow_is_saved_loaded_and_encodes_the_same(encoder: SentenceTransformer, tmp_path: Path) -> None:
    steps: list[int] = []
    model = add_flow(
        encoder,
        TEXTS[::2],
        TEXTS[1::2],
        config=FlowConfig(width=4, batch_size=16),
        cache_dir=tmp_path / "cache",
        on_step=lambda step, steps_in_all, bits: steps.append(steps_in_all),
    )
    assert steps == [4] * 4
    assert list((tmp_path / "cache").glob("*.sqlite"))
    model.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_dropout_is_seeded_new_in_every_epoch_and_leaves_the_model_as_it_was(
    encoder: SentenceTransformer,
) -> None:
    encoder.eval()
    state = torch.random.get_rng_state()
    first, again, other = (encode_with_dropout(encoder, ["a cat"] * 3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first[0], first[1])
    assert not encoder.training
    assert not any(module.training for module in encoder.modules())
    assert torch.equal(torch.random.get_rng_state(), state)
    config = FlowConfig(width=4, encoder_dropout=True, epochs=2)
    seen: list[Any] = []
    encoder[0].register_forward_pre_hook(lambda module, inputs: seen.append(module.training))
    model = add_flow(encoder, TEXTS, config=config)
    assert seen == [True] * 4  # 128 texts by 64, twice
    assert isinstance(model[-1], FlowModule)


def test_a_length_holds_while_fitting_only(encoder: SentenceTransformer) -> None:
    lengths: list[int] = []
    encoder[0].register_forward_pre_hook(
        lambda module, inputs: lengths.append(inputs[0]["input_ids"].shape[1])
    )
    model = add_whitening(encoder, [text + " red apple" * 5 for text in TEXTS], dimensions=3, max_length=6)
    assert max(lengths) == 6
    assert encoder.max_seq_length == model.max_seq_length == 64


def test_what_does_not_fit(encoder: SentenceTransformer) -> None:
    with pytest.raises(InputError, match="expects vectors of 8 dimensions, but the model computes 16"):
        append_transform(encoder, fit_whitening(np.random.default_rng(0).normal(size=(50, 8))))
    with pytest.raises(InputError, match="2 first sentences, but 1 second sentences"):
        add_flow(encoder, TEXTS[:2], TEXTS[:1])
    with pytest.raises(InputError, match="the list of sentences is empty"):
        add_flow(encoder, [])
    with pytest.raises(InputError, match="3 vectors are too few to estimate the covariance of 16"):
        add_whitening(encoder, TEXTS[:3])
    with pytest.raises(InputError, match="max_length 2 is too short for any word"):
        add_whitening(encoder, TEXTS, max_length=2)


def test_a_model_that_cuts_its_vectors_is_whitened_in_what_is_left(encoder: SentenceTransformer) -> None:
    encoder.truncate_dim = 4
    whitened = add_whitening(encoder, TEXTS).encode(TEXTS)
    assert whitened.shape[1] <= 4
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(whitened.shape[1]), atol=0.3)
