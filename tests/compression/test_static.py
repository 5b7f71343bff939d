"""Static students: their tokens, what they learn, and the folder that other libraries load."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import sentemb
from sentemb.compression.static_learning import (
    PRIOR,
    add_pieces,
    even_lengths,
    grow,
    list_pieces,
    make_base_tokenizer,
    neighbourhood_loss,
    principal_directions,
    refine,
    shrink_refinement,
)
from sentemb.compression.static_model import to_storage, tokenize_bags, write_static
from sentemb.encoding import load_encoder
from sentemb.encoding.encoder import normalised
from tests.compression.conftest import TEXTS, make_tokenizer


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode(text, add_special_tokens=False).tokens


def test_the_teachers_tokens_cut_as_the_teacher_does(teacher: Tokenizer) -> None:
    tokenizer = make_base_tokenizer(teacher, TEXTS, size=200)
    assert tokens(tokenizer, "Dogs in the park.") == ["▁dog", "s", "▁in", "▁the", "▁park", "▁."]
    assert tokens(tokenizer, "DO it.") == ["▁do", "▁it", "▁."]
    assert make_base_tokenizer(teacher, TEXTS, size=40).get_vocab_size() == 40


def test_a_pair_is_one_token_only_where_both_words_end(teacher: Tokenizer) -> None:
    base = make_base_tokenizer(teacher, TEXTS, size=200)
    larger = add_pieces(base, {"▁hot▁dog": 1, "▁do▁i": 1}, words=20)
    assert tokens(larger, "a hot dog") == ["▁a", "▁hot▁dog"]
    assert tokens(larger, "do it") == ["▁do", "▁it"]
    assert list_pieces(larger)[: base.get_vocab_size()] == list_pieces(base)


def test_refinement_finds_vectors_that_make_the_teachers() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(60)]
    texts = [" ".join(generator.choice(words, 6)) for _ in range(600)]
    tokenizer = make_base_tokenizer(make_tokenizer(["[UNK]", *words]), texts, size=400)
    bags = tokenize_bags(tokenizer, texts)
    size = tokenizer.get_vocab_size()
    targets = normalised(bags.sums(generator.normal(size=(size, 16)).astype(np.float32)))
    start = 0.1 * generator.normal(size=(size, 16)).astype(np.float32)
    refined = refine(start, bags, targets, steps=150, seed=1)
    cosines = (normalised(bags.sums(refined)) * targets).sum(axis=1)
    assert cosines.mean() > 0.97
    np.testing.assert_array_equal(refined, refine(start, bags, targets, steps=150, seed=1))
    unseen = bags.counts(size) == 0
    np.testing.assert_array_equal(refined[unseen], start[unseen])


def _neighbourhood_loss(means: np.ndarray, wanted: np.ndarray) -> float:
    """The same, text by text."""
    texts = range(len(means))
    total = 0.0
    for text in texts:
        others = [other for other in texts if other != text]
        shares = []
        for vectors in (means, wanted):
            units = [vector / np.linalg.norm(vector) for vector in vectors]
            weights = [np.exp(units[text] @ units[other] / 0.05) for other in others]
            shares.append([weight / sum(weights) for weight in weights])
        total -= sum(teacher * np.log(student) for student, teacher in zip(*shares, strict=True))
    return total / len(means)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_neighbourhoods_of_a_batch_are_compared_text_by_text(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    means, wanted = torch.randn(2, size, 5, dtype=torch.float64, generator=generator)
    loss = neighbourhood_loss(means, wanted)
    assert loss.item() == pytest.approx(_neighbourhood_loss(means.numpy(), wanted.numpy()), abs=1e-12)
    means.requires_grad_()
    assert torch.autograd.gradcheck(lambda vectors: neighbourhood_loss(vectors, wanted), means)
    assert neighbourhood_loss(means[:1], wanted[:1]).item() == 0  # a single text has no neighbours


def test_the_pair_that_is_not_the_sum_of_its_words_grows_first() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(generator.choice(words, 5)) for _ in range(400)]
    texts = [f"{text} hot dog" if number % 4 == 0 else text for number, text in enumerate(texts)]
    tokenizer = make_base_tokenizer(make_tokenizer(["[UNK]", *words, "hot", "dog"]), texts, size=400)
    table = generator.normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    meaning = 3 * generator.normal(size=16).astype(np.float32)
    sums = tokenize_bags(tokenizer, texts).sums(table)
    targets = normalised(sums + np.array([["hot dog" in text] for text in texts]) * meaning).astype(
        np.float32
    )
    size = tokenizer.get_vocab_size() + 1
    larger, grown = grow(tokenizer, table, texts, targets, size=size)
    assert list_pieces(larger)[-1] == "▁hot▁dog"
    # Its start is the sum of its parts: no text has moved.
    np.testing.assert_allclose(
        normalised(tokenize_bags(larger, texts).sums(grown)), normalised(sums), atol=1e-5
    )


def test_rare_tokens_move_as_the_frequent_ones_did() -> None:
    generator = np.random.default_rng(0)
    start = generator.normal(size=(300, 8)).astype(np.float32)
    turn = 5 * np.linalg.qr(generator.normal(size=(8, 8)))[0].astype(np.float32)
    counts = np.array([10**9] * 240 + [PRIOR] * 10 + [0] * 50)
    refined = np.where(counts[:, None] > PRIOR, start @ turn, start)
    found = shrink_refinement(start, refined, counts)
    np.testing.assert_allclose(found[:240], refined[:240], rtol=1e-5, atol=1e-5)
    # Ten tokens that stay where they were hold the rest back a little.
    np.testing.assert_allclose(found[250:], start[250:] @ turn, rtol=0.1, atol=0.5)
    moved = 2 * found[240:250] - refined[240:250]  # half is what the texts say
    np.testing.assert_allclose(moved, start[240:250] @ turn, rtol=0.1, atol=0.5)


def test_lengths_of_token_vectors_come_nearer_and_directions_stay() -> None:
    table = (
        np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32) * np.geomspace(0.01, 9, 50)[:, None]
    )
    table[0] = 0
    found = even_lengths(table)
    np.testing.assert_allclose(normalised(found), normalised(table), atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(found, axis=1)[1:], np.linalg.norm(table, axis=1)[1:] ** 0.8, rtol=1e-5
    )


def test_the_first_directions_hold_most() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32) * [1, 9, 1, 1, 5, 1]
    turned = vectors @ principal_directions(vectors, 2)
    assert turned[:, 0].var() > turned[:, 1].var() > 20


@pytest.mark.parametrize(("storage", "error"), [("float32", 0), ("float16", 2e-3), ("int8", 2e-2)])
def test_the_folder_loads_everywhere(tmp_path: Path, teacher: Tokenizer, storage: str, error: float) -> None:
    tokenizer = make_base_tokenizer(teacher, TEXTS, size=200)
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    table[0] = 0
    write_static(tmp_path, tokenizer, table, storage=storage)  # type: ignore[arg-type]
    texts = [*TEXTS, "", "Ωμέγα", "big big dog " * 500]
    wanted = normalised(tokenize_bags(tokenizer, texts).sums(table))
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(plain.encode(texts), wanted, atol=error + 1e-6)
    encoder = load_encoder(sentemb.load(tmp_path))
    assert encoder.describe()["backend"] == "torch, bags of tokens"
    np.testing.assert_array_equal(encoder.encode(texts), plain.encode(texts))
    if find_spec("model2vec"):
        read = import_module("model2vec").StaticModel.from_pretrained(tmp_path).encode(TEXTS)
        np.testing.assert_allclose(read, plain.encode(TEXTS), atol=1e-6)


def test_int8_keeps_each_token_to_half_a_step() -> None:
    table = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    table[3] = 0
    numbers, factors = to_storage(table, "int8")
    assert (np.abs(numbers * factors[:, None] - table) <= factors[:, None] * 0.5001).all()
    assert np.abs(numbers).max(axis=1).tolist() == [0 if row == 3 else 127 for row in range(20)]
    assert not numbers[3].any()
