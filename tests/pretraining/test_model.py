"""The decoder at hidden positions, positions, and new models."""

from __future__ import annotations

import shutil
from pathlib import Path

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
from sentemb.pretraining.model import first_position, load_base, longest_input, masked_loss, new_bert
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


def test_models_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains neither config"):
        load_base(tmp_path)


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
