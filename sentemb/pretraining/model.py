"""Masked language models: a new small BERT, an existing base, and their loss at the hidden positions only."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from sentemb._compat import load_reports_through
from sentemb.errors import InputError
from sentemb.modules.check import AGAIN, check_weights, expected_of_a_masked_model, readable
from sentemb.modules.source import find_source
from sentemb.training.config import PretrainConfig


def new_bert(tokenizer: PreTrainedTokenizerFast, config: PretrainConfig) -> BertForMaskedLM:
    """Return a randomly initialized BERT with a tied decoder."""
    settings = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.inner_width,
        max_position_embeddings=config.positions,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seeds[0])
        return BertForMaskedLM(settings)


def load_base(base: str | Path, *, seed: int = 0) -> PreTrainedModel:
    """Return an existing base with its masked-language-model head, a new one where it does not have one."""
    address = find_source(str(base)).address
    with readable(address), load_reports_through(expected_of_a_masked_model), torch.random.fork_rng():
        torch.manual_seed(seed)
        model, report = AutoModelForMaskedLM.from_pretrained(
            address, dtype=torch.float32, output_loading_info=True
        )
    encoder = f"{model.base_model_prefix}."
    if lost := sorted(name for name in report["missing_keys"] if name.startswith(encoder)):
        raise InputError(f"{address} lacks {len(lost)} weights of the encoder, such as {lost[0]}", AGAIN)
    check_weights(model, address)
    return model


def first_position(model: PreTrainedModel) -> int | None:
    """Return the position id of a first token, when the model lets a caller set positions."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    takes = "position_ids" in inspect.signature(model.forward).parameters
    if not isinstance(table, nn.Embedding) or not takes:
        return None
    return 0 if table.padding_idx is None else table.padding_idx + 1


def longest_input(model: PreTrainedModel) -> int:
    """Return the number of tokens that the model takes."""
    return int(model.config.max_position_embeddings) - (first_position(model) or 0)


def masked_loss(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean cross-entropy at the hidden positions, which alone are decoded; 0 without any."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids") if name in batch}
    head = getattr(model, "cls", None) or getattr(model, "lm_head", None)
    if head is None:
        logits = model(**inputs).logits.flatten(0, 1)[batch["masked_index"]]  # (masked, vocabulary)
    else:
        hidden = model.base_model(**inputs)[0].flatten(0, 1)  # (batch * length, width)
        logits = head(hidden[batch["masked_index"]])  # (masked, vocabulary)
    if not len(logits):
        return nn.functional.l1_loss(logits, logits, reduction="sum")  # a mean of nothing would be NaN
    return nn.functional.cross_entropy(logits.float(), batch["masked_labels"])
