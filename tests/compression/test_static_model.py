"""Static models on disk: sentence-transformers and model2vec load the folder, int8 keeps half a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import sentemb
from sentemb.compression.distillation import normalize_rows
from sentemb.compression.static_learning import make_base_tokenizer
from sentemb.compression.static_model import to_storage, tokenize_bags, write_static
from sentemb.encoding import load_encoder
from tests.compression.conftest import TEXTS


@pytest.mark.parametrize(("storage", "error"), [("float32", 0), ("float16", 2e-3), ("int8", 2e-2)])
def test_the_folder_loads_everywhere(tmp_path: Path, teacher: Tokenizer, storage: str, error: float) -> None:
    tokenizer = make_base_tokenizer(teacher, TEXTS, size=200)
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    table[0] = 0
    write_static(tmp_path, tokenizer, table, storage=storage)  # type: ignore[arg-type]
    texts = [*TEXTS, "", "Ωμέγα", "big big dog " * 500]
    wanted = normalize_rows(tokenize_bags(tokenizer, texts).sums(table))
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(plain.encode(texts), wanted, atol=error + 1e-6)
    encoder = load_encoder(sentemb.load(tmp_path))
    assert encoder.describe()["backend"] == "torch, bags of tokens"
    np.testing.assert_array_equal(encoder.encode(texts), plain.encode(texts))


def test_model2vec_loads_the_folder(tmp_path: Path, teacher: Tokenizer) -> None:
    model2vec = pytest.importorskip("model2vec")
    tokenizer = make_base_tokenizer(teacher, TEXTS, size=200)
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    table[0] = 0
    write_static(tmp_path, tokenizer, table, storage="int8")
    read = model2vec.StaticModel.from_pretrained(tmp_path).encode(TEXTS)
    np.testing.assert_allclose(read, SentenceTransformer(str(tmp_path)).encode(TEXTS), atol=1e-6)


def test_int8_keeps_each_token_to_half_a_step() -> None:
    table = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    table[3] = 0
    numbers, factors = to_storage(table, "int8")
    assert (np.abs(numbers * factors[:, None] - table) <= factors[:, None] * 0.5001).all()
    assert np.abs(numbers).max(axis=1).tolist() == [0 if row == 3 else 127 for row in range(20)]
    assert not numbers[3].any()
