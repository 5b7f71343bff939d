"""Static students: their tokens, what they learn, and the folder that other libraries load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import sentemb
from sentemb.compression.static_bags import bags_of
from sentemb.compression.static_files import stored, write_static
from sentemb.compression.static_growth import grow
from sentemb.compression.static_refinement import neighbourhood_loss, refine
from sentemb.compression.static_vectors import PRIOR, evened, main_directions, settled, unit
from sentemb.compression.static_vocabulary import base_tokenizer, pieces_of, with_pieces
from sentemb.encoding import load_encoder

TEACHER_TOKENS = "[PAD] [UNK] do i it ##t hot dog eat a the bun man ##s in park big .".split()
TEXTS = ["do it", "eat a hot dog", "the big dog in a park", "Eat the bun.", "a man in the park"]


@pytest.fixture(scope="module")
def teacher() -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({token: number for number, token in enumerate(TEACHER_TOKENS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode(text, add_special_tokens=False).tokens


def test_the_teachers_tokens_cut_as_the_teacher_does(teacher: Tokenizer) -> None:
    tokenizer = base_tokenizer(teacher, TEXTS, size=200)
    assert tokens(tokenizer, "Dogs in the park.") == ["▁dog", "s", "▁in", "▁the", "▁park", "▁."]
    assert tokens(tokenizer, "DO it.") == ["▁do", "▁it", "▁."]
    assert base_tokenizer(teacher, TEXTS, size=40).get_vocab_size() == 40


def test_a_pair_is_one_token_only_where_both_words_end(teacher: Tokenizer) -> None:
    base = base_tokenizer(teacher, TEXTS, size=200)
    larger = with_pieces(base, {"▁hot▁dog": 1, "▁do▁i": 1}, words=20)
    assert tokens(larger, "a hot dog") == ["▁a", "▁hot▁dog"]
    assert tokens(larger, "do it") == ["▁do", "▁it"]
    assert pieces_of(larger)[: base.get_vocab_size()] == pieces_of(base)


def test_refinement_finds_vectors_that_make_the_teachers() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(60)]
    texts = [" ".join(generator.choice(words, 6)) for _ in range(600)]
    tokenizer = base_tokenizer(_wordlevel(words), texts, size=400)
    bags = bags_of(tokenizer, texts)
    size = tokenizer.get_vocab_size()
    targets = unit(bags.sums(generator.normal(size=(size, 16)).astype(np.float32)))
    start = 0.1 * generator.normal(size=(size, 16)).astype(np.float32)
    refined = refine(start, bags, targets, steps=150, seed=1)
    cosines = (unit(bags.sums(refined)) * targets).sum(axis=1)
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
    tokenizer = base_tokenizer(_wordlevel([*words, "hot", "dog"]), texts, size=400)
    table = generator.normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    meaning = 3 * generator.normal(size=16).astype(np.float32)
    sums = bags_of(tokenizer, texts).sums(table)
    targets = unit(sums + np.array([["hot dog" in text] for text in texts]) * meaning).astype(np.float32)
    size = tokenizer.get_vocab_size() + 1
    larger, grown = grow(tokenizer, table, texts, targets, size=size)
    assert pieces_of(larger)[-1] == "▁hot▁dog"
    # Its start is the sum of its parts: no text has moved.
    np.testing.assert_allclose(unit(bags_of(larger, texts).sums(grown)), unit(sums), atol=1e-5)


def test_rare_tokens_move_as_the_frequent_ones_did() -> None:
    generator = np.random.default_rng(0)
    start = generator.normal(size=(300, 8)).astype(np.float32)
    turn = 5 * np.linalg.qr(generator.normal(size=(8, 8)))[0].astype(np.float32)
    counts = np.array([10**9] * 240 + [PRIOR] * 10 + [0] * 50)
    refined = np.where(counts[:, None] > PRIOR, start @ turn, start)
    found = settled(start, refined, counts)
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
    found = evened(table)
    np.testing.assert_allclose(unit(found), unit(table), atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(found, axis=1)[1:], np.linalg.norm(table, axis=1)[1:] ** 0.8, rtol=1e-5
    )


def test_the_first_directions_hold_most() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32) * [1, 9, 1, 1, 5, 1]
    turned = vectors @ main_directions(vectors, 2)
    assert turned[:, 0].var() > turned[:, 1].var() > 20


@pytest.mark.parametrize(("storage", "error"), [("float32", 0), ("float16", 2e-3), ("int8", 2e-2)])
def test_the_folder_loads_everywhere(tmp_path: Path, teacher: Tokenizer, storage: str, error: float) -> None:
    tokenizer = base_tokenizer(teacher, TEXTS, size=200)
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    table[0] = 0
    write_static(tmp_path, tokenizer, table, storage=storage)  # type: ignore[arg-type]
    texts = [*TEXTS, "", "Ωμέγα", "big big dog " * 500]
    wanted = unit(bags_of(tokenizer, texts).sums(table))
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(plain.encode(texts), wanted, atol=error + 1e-6)
    encoder = load_encoder(sentemb.load(tmp_path))
    assert encoder.describe()["backend"] == "torch, bags of tokens"
    np.testing.assert_array_equal(encoder.encode(texts), plain.encode(texts))


def test_model2vec_loads_the_folder(tmp_path: Path, teacher: Tokenizer) -> None:
    model2vec = pytest.importorskip("model2vec")
    tokenizer = base_tokenizer(teacher, TEXTS, size=200)
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    table[0] = 0
    write_static(tmp_path, tokenizer, table, storage="int8")
    read = model2vec.StaticModel.from_pretrained(tmp_path).encode(TEXTS)
    np.testing.assert_allclose(read, SentenceTransformer(str(tmp_path)).encode(TEXTS), atol=1e-6)


def test_int8_keeps_each_token_to_half_a_step() -> None:
    table = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    table[3] = 0
    numbers, factors = stored(table, "int8")
    assert (np.abs(numbers * factors[:, None] - table) <= factors[:, None] * 0.5001).all()
    assert np.abs(numbers).max(axis=1).tolist() == [0 if row == 3 else 127 for row in range(20)]
    assert not numbers[3].any()


def _wordlevel(words: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
