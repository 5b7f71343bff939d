"""The encoder over a SentenceTransformer equals its own encode, only once per different text."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoTokenizer

import sentemb.encoding.sentence as sentence
from sentemb._compat import Dense, Normalize
from sentemb.encoding import load_encoder
from sentemb.encoding.sentence import SentenceEncoder, is_plain_text_model
from sentemb.encoding.tokens import TokenisedTexts
from sentemb.errors import InputError
from sentemb.modules import Poolings, load

MakeEncoder = Callable[..., SentenceTransformer]


def assert_equals_own_encode(model: SentenceTransformer, texts: list[str]) -> None:
    vectors = SentenceEncoder(model, name="tiny").encode(texts)
    expected = model.encode(texts, convert_to_numpy=True)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("pooling", get_args(Poolings))
def test_every_pooling(tiny_bert: Path, texts: list[str], pooling: Poolings) -> None:
    assert_equals_own_encode(load(tiny_bert, pooling=pooling, device="cpu"), texts)


def prompt_without_pooling(model: SentenceTransformer) -> None:
    model.prompts, model.default_prompt_name = {"task": "the dog "}, "task"
    model.set_pooling_include_prompt(False)


@pytest.mark.parametrize(
    "change",
    [
        prompt_without_pooling,
        lambda model: setattr(model, "forward", model.forward),  # as accelerate does for mixed precision
        lambda model: setattr(model[0].model, "forward", model[0].model.forward),
        lambda model: model[0].compile(backend="eager"),
    ],
)
def test_other_models_take_their_own_encode(
    make_encoder: MakeEncoder, texts: list[str], change: Callable[[SentenceTransformer], None]
) -> None:
    model = make_encoder("mean")
    change(model)
    assert not is_plain_text_model(model)
    model.train()
    vectors = SentenceEncoder(model, name="tiny").encode(texts)
    assert model.training
    np.testing.assert_allclose(vectors, model.eval().encode(texts), atol=1e-5)  # no dropout


def test_normalised_truncated_and_prompted(make_encoder: MakeEncoder, texts: list[str]) -> None:
    model = make_encoder(
        "mean", normalize=True, truncate_dim=5, prompts={"task": "the dog "}, default_prompt_name="task"
    )
    assert is_plain_text_model(model)
    assert_equals_own_encode(model, texts)
    assert SentenceEncoder(model, name="tiny").encode(texts).shape == (len(texts), 5)
    assert SentenceEncoder(model, name="tiny").dimension == 5


def test_left_padding_does_not_matter_where_nothing_is_padded(
    make_encoder: MakeEncoder, texts: list[str]
) -> None:
    model = make_encoder("lasttoken")
    model.tokenizer.padding_side = "left"
    assert is_plain_text_model(model)
    alone = np.concatenate([model.encode([text]) for text in texts])  # its own vectors depend on the batch
    np.testing.assert_allclose(SentenceEncoder(model, name="tiny").encode(texts), alone, atol=1e-5)


def test_half_precision_weights(make_encoder: MakeEncoder, texts: list[str]) -> None:
    model = make_encoder("mean").bfloat16()
    encoder = SentenceEncoder(model, name="tiny")
    assert encoder.describe()["precision"] == "bfloat16"
    np.testing.assert_allclose(encoder.encode(texts), model.float().encode(texts), atol=0.1)


def test_each_unique_text_is_encoded_once_and_the_order_is_kept(
    make_encoder: MakeEncoder, texts: list[str]
) -> None:
    model = make_encoder("mean")
    rows: list[int] = []
    model[0].register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0]["input_ids"])))
    encoder = SentenceEncoder(model, name="tiny")
    order = np.random.default_rng(0).permutation(len(texts) * 2) % len(texts)
    vectors = encoder.encode([texts[i] for i in order])
    assert sum(rows) == len(set(texts)) < len(texts)
    np.testing.assert_array_equal(vectors, encoder.encode(texts)[order])
    assert encoder.encode([]).shape == (0, 16)


def test_static_models_are_encoded_in_large_batches_and_others_by_upstream(
    tiny_bert: Path, texts: list[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert).backend_tokenizer
    static = StaticEmbedding(tokenizer, embedding_dim=8)
    model = SentenceTransformer(modules=[static, Normalize()], device="cpu")
    many = [f"{text} {number}" for text in texts for number in range(25)]
    np.testing.assert_array_equal(load_encoder(model).encode(many), model.encode(many))
    assert load_encoder(model).describe()["backend"] == "torch, bags of tokens"
    model = SentenceTransformer(modules=[static, Dense(8, 4)], device="cpu")
    assert_equals_own_encode(model, texts)
    assert load_encoder(model).describe()["backend"] == "SentenceTransformer.encode"


@pytest.mark.parametrize("world_size", [1, 2])  # a distributed run takes the model's own encode
def test_the_mode_random_numbers_and_gradients_are_left_as_they_are(
    make_encoder: MakeEncoder, texts: list[str], world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence, "get_world_size", lambda: world_size)
    model = make_encoder("mean")
    model.train()
    model[0].model.embeddings.eval()  # a frozen part that its owner keeps in eval mode
    before = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    calls: list[int] = []
    own = model.encode
    monkeypatch.setattr(model, "encode", lambda some, **rest: calls.append(len(some)) or own(some, **rest))
    encoder = SentenceEncoder(model, name="tiny")
    first = encoder.encode(texts)
    assert calls == [len(set(texts))] * (world_size - 1)
    encoder.describe()
    assert [module.training for module in model.modules()] == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    np.testing.assert_array_equal(first, SentenceEncoder(model, name="tiny").encode(texts))  # no dropout


def test_training_steps_are_seen(
    make_encoder: MakeEncoder, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence, "kernel_for", lambda model, *, precision: "packed")
    model = make_encoder("mean")
    encoder = SentenceEncoder(model, name="tiny")
    before = encoder.encode(texts)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    features = model.preprocess(texts[:20])
    model(features)["sentence_embedding"].square().sum().backward()
    optimizer.step()
    assert np.abs(encoder.encode(texts) - before).max() > 1e-3
    assert_equals_own_encode(model, texts)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (["a", None], "text 1 is a NoneType, not a string"),
        ("a cat", "not a string; wrap"),
        ([["a", "b"]], "text 0 is a list"),
    ],
)
def test_what_is_no_text_is_named(make_encoder: MakeEncoder, bad: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SentenceEncoder(make_encoder(), name="tiny").encode(bad)


def test_vectors_that_are_not_finite_are_named(make_encoder: MakeEncoder) -> None:
    model = make_encoder("mean")
    with torch.no_grad():
        model[0].model.embeddings.word_embeddings.weight[model.tokenizer.vocab["dog"]] = float("nan")
    with pytest.raises(
        InputError, match=r"tiny returned NaN or infinity for text 3 \('the dog'\), 2 in total"
    ):
        SentenceEncoder(model, name="tiny").encode(["a", "a cat", "a", "the dog", "a", "the dog"])


def test_fingerprint_follows_what_decides_the_vectors(
    make_encoder: MakeEncoder, tiny_bert: Path, tmp_path: Path
) -> None:
    model = make_encoder("mean")
    encoder = SentenceEncoder(model, name="tiny")
    original = encoder.fingerprint
    model.save(str(tmp_path / "elsewhere"))
    assert load_encoder(tmp_path / "elsewhere").fingerprint == original
    encoder.encode(["a cat"])  # encoding changes nothing
    assert encoder.fingerprint == original

    changed = {original}
    for change in (
        lambda model: model[0].model.embeddings.word_embeddings.weight.data[7].add_(1e-3),
        lambda model: setattr(model, "max_seq_length", 9),
        lambda model: setattr(model, "truncate_dim", 4),
        lambda model: model.prompts.update(query="the "),
        lambda model: model.tokenizer.add_tokens(["whale"]),
        lambda model: setattr(model[1], "pooling_mode", "cls"),
    ):
        other = copy.deepcopy(model)
        change(other)
        changed.add(SentenceEncoder(other, name="tiny").fingerprint)
    assert len(changed) == 7


@pytest.fixture
def batches_by_thread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small batches, and the names of the threads that make them."""
    names: list[str] = []
    make = TokenisedTexts.batch

    def batch(self: TokenisedTexts, indices: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        names.append(threading.current_thread().name)
        return make(self, indices)

    monkeypatch.setattr(sentence, "TOKEN_BUDGET_CPU", 32)
    monkeypatch.setattr(TokenisedTexts, "batch", batch)
    return names


def test_autocast_stays_in_its_thread(
    make_encoder: MakeEncoder, texts: list[str], batches_by_thread: list[str], three_threads: None
) -> None:
    encoder = SentenceEncoder(make_encoder("mean"), name="tiny")
    with torch.autocast("cpu", torch.bfloat16):
        reduced = encoder.encode(texts)
    assert set(batches_by_thread) == {threading.current_thread().name}
    batches_by_thread.clear()
    assert not np.array_equal(reduced, encoder.encode(texts))
    assert threading.current_thread().name not in batches_by_thread and torch.get_num_threads() == 3


def test_a_failing_batch_is_raised_and_leaves_the_threads_as_they_were(
    make_encoder: MakeEncoder,
    texts: list[str],
    batches_by_thread: list[str],
    three_threads: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: TokenisedTexts, indices: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        raise MemoryError("too large")

    monkeypatch.setattr(TokenisedTexts, "batch", fail)
    with pytest.raises(MemoryError, match="too large"):
        SentenceEncoder(make_encoder("mean"), name="tiny").encode(texts)
    assert torch.get_num_threads() == 3
