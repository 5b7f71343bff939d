"""The vectors of a static encoder are those of sentence-transformers, bit for bit."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from sentemb._compat import Normalize, StaticEmbedding
from sentemb.encoding import static, static_tokens
from sentemb.encoding.static import encode_static
from sentemb.modules.source import find_source
from tests.encoding.test_static_tokens import unigram, wordpiece, written


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_CHARACTERS_PER_BATCH", 3_000)
    monkeypatch.setattr(static, "_TEXTS_PER_BATCH", 150)
    monkeypatch.setattr(static_tokens, "_ENOUGH", 1)


def model_of(tokenizer: Tokenizer, *, normalize: bool = True) -> SentenceTransformer:
    size = tokenizer.get_vocab_size()
    table = np.random.default_rng(0).standard_normal((size, 32)).astype(np.float32)
    modules = [StaticEmbedding(tokenizer, embedding_weights=table), *([Normalize()] if normalize else [])]
    return SentenceTransformer(modules=modules, device="cpu")


def bits(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    return np.ascontiguousarray(vectors).view(np.int32)


def models() -> Iterator[SentenceTransformer]:
    yield model_of(unigram(seed=1))
    yield model_of(wordpiece(), normalize=False)
    cut = wordpiece()
    cut.enable_truncation(3)
    yield model_of(cut)
    half = model_of(wordpiece())
    yield half.half()
    fewer = model_of(unigram())
    fewer.truncate_dim = 5
    yield fewer


def test_vectors_are_upstreams_bit_for_bit() -> None:
    texts = [*written(400), "", " ", "abc " * 2_000, "\u0301"]
    for model in models():
        for prompt in ("", "abc: "):
            vectors, counts = encode_static(model, texts, prompt=prompt)
            expected = model.encode(texts, prompt=prompt, normalize_embeddings=False)
            np.testing.assert_array_equal(bits(vectors), bits(expected.astype(np.float32)))
            tokens = model[0].tokenizer.encode_batch(
                [prompt + text for text in texts], add_special_tokens=False
            )
            assert counts.tolist() == [len(some.ids) for some in tokens]


@pytest.mark.parametrize("threads", [1, 2])
def test_vectors_do_not_depend_on_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        model, texts = model_of(unigram(seed=2)), written(500)
        np.testing.assert_array_equal(bits(encode_static(model, texts)[0]), bits(model.encode(texts)))
        monkeypatch.setattr(static, "normalize", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # also from a thread
            encode_static(model, texts)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_bundled_model_has_upstreams_vectors(texts: list[str]) -> None:
    model = SentenceTransformer(find_source("static-mini").address, device="cpu")
    some = [*texts, *(f"{text}, and “{text[:20]}” isn’t it?" for text in texts), *written(200)]
    np.testing.assert_array_equal(bits(encode_static(model, some)[0]), bits(model.encode(some)))


def test_words_are_kept_until_the_tokenizer_changes_or_the_model_is_gone() -> None:
    model, texts = model_of(wordpiece()), ["abc bad dad cab"] * 10
    module = model[0]
    encode_static(model, texts)
    kept = static._tokens[module]
    encode_static(model, texts)
    assert static._tokens[module] is kept
    changes: list[Callable[[StaticEmbedding], object]] = [
        lambda one: one.tokenizer.add_special_tokens(["bad"]),
        lambda one: one.tokenizer.enable_truncation(2),
        lambda one: setattr(one, "tokenizer", wordpiece(lowercase=False)),
    ]
    for change in changes:
        change(module)
        np.testing.assert_array_equal(bits(encode_static(model, texts)[0]), bits(model.encode(texts)))
        assert static._tokens[module] is not kept
        kept = static._tokens[module]
    gone = weakref.ref(kept)
    del model, module, kept
    gc.collect()
    assert gone() is None
