"""The decoder at hidden positions, positions, and new models."""

from __future__ import annotations

import shutil
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from sentemb.errors import InputError
from sentemb.pretraining import model as module
from sentemb.pretraining.model import (
    cooccurrence_vectors,
    count_cooccurrences,
    first_position,
    load_base,
    longest_input,
    masked_loss,
    new_bert,
    positive_pmi,
    start_from_cooccurrence,
)
from sentemb.pretraining.tokens import Visits, WholeWordMasking, open_rows, write_rows
from sentemb.training import resolve

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def other_models(tokenizer: PreTrainedTokenizerFast) -> list[PreTrainedModel]:
    vocabulary = len(tokenizer)
    return [
        RobertaForMaskedLM(RobertaConfig(vocab_size=vocabulary, max_position_embeddings=70, **SIZES)),
        # Its head is not a single module: every position is decoded.
        DistilBertForMaskedLM(
            DistilBertConfig(vocab_size=vocabulary, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
        ),
    ]


def test_a_new_head_is_nothing_to_warn_of_and_a_missing_layer_is_refused(
    tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = load_base(tiny_bert, seed=3)
    assert not caplog.records
    torch.manual_seed(3)
    for name, weights in AutoModelForMaskedLM.from_pretrained(tiny_bert).state_dict().items():
        assert torch.equal(weights, base.state_dict()[name])
    assert "LOAD REPORT" in caplog.text
    caplog.clear()
    broken = shutil.copytree(tiny_bert, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"broken lacks 1 .* bert.encoder.layer.0.output.dense.weight"):
        load_base(broken)


def test_the_loss_at_hidden_positions_is_that_of_the_full_decoder(
    tiny_bert: Path, lines: list[str], tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows.arrow", lines, tiny_tokenizer, 32)
    visits = Visits(open_rows(tmp_path / "rows.arrow"), seed=0)
    for model in (load_base(tiny_bert), *other_models(tiny_tokenizer)):
        model.eval()
        masking = WholeWordMasking(tiny_tokenizer, first_position=first_position(model))
        batch = masking([visits[number] for number in range(6)])
        inputs = {name: value for name, value in batch.items() if not name.startswith("masked")}
        labels = torch.full_like(batch["input_ids"], -100)
        labels.view(-1)[batch["masked_index"]] = batch["masked_labels"]
        full = model(**inputs).logits
        expected = cross_entropy(full.flatten(0, 1), labels.flatten())
        loss = masked_loss(model, batch)
        torch.testing.assert_close(loss, expected)
        weight = model.get_input_embeddings().weight
        torch.testing.assert_close(
            torch.autograd.grad(loss, weight)[0],
            torch.autograd.grad(expected, weight)[0],
            atol=1e-6,
            rtol=1e-4,
        )


def test_positions_are_counted_as_each_architecture_does(
    tiny_bert: Path, tiny_tokenizer: PreTrainedTokenizerFast
) -> None:
    bert, roberta = load_base(tiny_bert), other_models(tiny_tokenizer)[0]
    assert (first_position(bert), longest_input(bert)) == (0, 64)
    assert (first_position(roberta), longest_input(roberta)) == (2, 68)


def test_a_new_model_follows_its_seed(tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    sizes = {"layers": 1, "width": 8, "heads": 2, "inner_width": 8, "corpus": ["a.txt"], "output": "o"}
    first, again, other = (
        new_bert(tiny_tokenizer, resolve("mlm", overrides=sizes | {"seeds": [seed]})).state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(first[name], other[name])
    for change, message in (
        ({"heads": 3}, "is not divisible by 3 heads"),
        ({"positions": 64}, "64 positions"),
    ):
        with pytest.raises(InputError, match=message):
            resolve("mlm", overrides=sizes | change)


def test_a_batch_that_hides_nothing_has_no_loss_and_moves_no_weight(tiny_bert: Path) -> None:
    model = load_base(tiny_bert)
    nothing = torch.empty(0, dtype=torch.long)
    batch = {"input_ids": torch.tensor([[3]]), "masked_index": nothing, "masked_labels": nothing}
    loss = masked_loss(model, batch)
    loss.backward()
    assert loss == 0
    assert all(not weight.grad.any() for weight in model.parameters() if weight.grad is not None)


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
        monkeypatch.setattr(module, "_ROWS", at_once)
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
