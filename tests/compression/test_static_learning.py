"""Static students: their tokens, what they learn, and the folder that other libraries load."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from sentemb.compression.distillation import normalize_rows
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
from sentemb.compression.static_model import tokenize_bags
from tests.compression.conftest import TEXTS


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
    tokenizer = make_base_tokenizer(_wordlevel(words), texts, size=400)
    bags = tokenize_bags(tokenizer, texts)
    size = tokenizer.get_vocab_size()
    targets = normalize_rows(bags.sums(generator.normal(size=(size, 16)).astype(np.float32)))
    start = 0.1 * generator.normal(size=(size, 16)).astype(np.float32)
    refined = refine(start, bags, targets, steps=150, seed=1)
    cosines = (normalize_rows(bags.sums(refined)) * targets).sum(axis=1)
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


def test_a_single_text_has_no_neighbours() -> None:
    means = torch.ones(1, 3, requires_grad=True)
    loss = neighbourhood_loss(means, torch.tensor([[1.0, 2.0, 3.0]]))
    (gradient,) = torch.autograd.grad(loss, means)
    assert loss.item() == 0
    assert gradient.tolist() == [[0.0, 0.0, 0.0]]


def test_the_pair_that_is_not_the_sum_of_its_words_grows_first() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(generator.choice(words, 5)) for _ in range(400)]
    texts = [f"{text} hot dog" if number % 4 == 0 else text for number, text in enumerate(texts)]
    tokenizer = make_base_tokenizer(_wordlevel([*words, "hot", "dog"]), texts, size=400)
    table = generator.normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    meaning = 3 * generator.normal(size=16).astype(np.float32)
    sums = tokenize_bags(tokenizer, texts).sums(table)
    targets = normalize_rows(sums + np.array([["hot dog" in text] for text in texts]) * meaning).astype(
        np.float32
    )
    size = tokenizer.get_vocab_size() + 1
    larger, grown = grow(tokenizer, table, texts, targets, size=size)
    assert list_pieces(larger)[-1] == "▁hot▁dog"
    # Its start is the sum of its parts: no text has moved.
    np.testing.assert_allclose(
        normalize_rows(tokenize_bags(larger, texts).sums(grown)), normalize_rows(sums), atol=1e-5
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
    np.testing.assert_allclose(normalize_rows(found), normalize_rows(table), atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(found, axis=1)[1:], np.linalg.norm(table, axis=1)[1:] ** 0.8, rtol=1e-5
    )


def test_the_first_directions_hold_most() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32) * [1, 9, 1, 1, 5, 1]
    turned = vectors @ principal_directions(vectors, 2)
    assert turned[:, 0].var() > turned[:, 1].var() > 20


def _wordlevel(words: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
