"""Token embeddings that begin as co-occurrence vectors."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from sentemb.errors import InputError
from sentemb.pretraining import cooccurrence
from sentemb.pretraining.cooccurrence import (
    cooccurrence_vectors,
    count_cooccurrences,
    positive_pmi,
    start_from_cooccurrence,
)
from sentemb.pretraining.model import new_bert
from sentemb.pretraining.tokens import open_rows, write_rows
from sentemb.training import resolve


@pytest.fixture
def rows(lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> datasets.Dataset:
    write_rows(tmp_path / "rows.arrow", lines, tiny_tokenizer, 16)
    return open_rows(tmp_path / "rows.arrow")


def test_counts_are_those_of_plain_loops_wherever_rows_end(
    rows: datasets.Dataset, tiny_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, opens = len(tiny_tokenizer), tiny_tokenizer.cls_token_id
    tokens = np.concatenate(rows["tokens"])
    documents = np.cumsum(tokens == opens)
    expected = np.zeros((size, size))
    for place in range(len(tokens)):
        for distance in range(1, 4):
            other = place + distance
            if other < len(tokens) and documents[place] == documents[other]:
                expected[tokens[place], tokens[other]] += 1 / distance
    for at_once in (1, 7, 10_000):
        monkeypatch.setattr(cooccurrence, "_ROWS", at_once)
        near, counts = count_cooccurrences(rows, size, document_start=opens, window=3)
        np.testing.assert_allclose(near.toarray(), expected + expected.T, rtol=1e-5)
        assert np.array_equal(counts, np.bincount(tokens, minlength=size))


def test_positive_pmi_is_its_formula(rows: datasets.Dataset, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    near, _ = count_cooccurrences(rows, len(tiny_tokenizer), document_start=tiny_tokenizer.cls_token_id)
    dense = near.toarray().astype(np.float64)
    totals = dense.sum(axis=1)
    smoothed = totals**0.75 / (totals**0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log((dense / dense.sum()) / np.outer(totals / dense.sum(), smoothed))
    expected = np.where((dense > 0) & (expected > 0), expected, 0)
    np.testing.assert_allclose(positive_pmi(near).toarray(), expected, atol=1e-5)


def test_starting_vectors_keep_their_direction_and_predict_frequencies(
    rows: datasets.Dataset, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    size, opens = len(tiny_tokenizer), tiny_tokenizer.cls_token_id
    near, counts = count_cooccurrences(rows, size, document_start=opens)
    vectors = cooccurrence_vectors(near, 8)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.all(np.isclose(norms, 1) | (norms == 0))
    sizes = {"layers": 1, "width": 8, "heads": 2, "inner_width": 8}
    config = resolve("mlm", overrides={"corpus": ["a.txt"], "output": "out", **sizes})
    model = new_bert(tiny_tokenizer, config)
    before = model.get_input_embeddings().weight.clone()
    start_from_cooccurrence(model, rows, document_start=opens, seed=0)
    after = model.get_input_embeddings().weight.detach()
    known = torch.from_numpy(norms > 0)
    assert 0 < known.sum() < size
    assert torch.equal(after[~known], before[~known])
    cosines = torch.nn.functional.cosine_similarity(after[known], torch.from_numpy(vectors)[known])
    torch.testing.assert_close(cosines, torch.ones_like(cosines))
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    frequent, rare = int(np.argmax(counts)), int(np.argmin(np.where(norms > 0, counts, 10**9)))
    assert after[frequent].norm() < after[rare].norm() <= 0.05 * 8**0.5
    torch.testing.assert_close(model.cls.predictions.bias.exp().sum().item(), 1.0, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="too small for co-occurrence vectors"):
        cooccurrence_vectors(near, size)
