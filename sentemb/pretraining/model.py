"""Masked language models: a new small BERT and its first weights, an existing base, and their loss."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
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

_SMOOTHING = 0.75  # of the context distribution (TACL 2015, section 3.1)
_ROWS = 40_000  # that are counted at once
# Below this frequency a token's vector has its full length; above, it shrinks. The constant is that of
# frequency-weighted means (Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline, ICLR 2017).
_SMOOTH_FREQUENCY = 1e-3
_SCALE = 0.05  # standard deviation of the vector of a rare token


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


def start_from_cooccurrence(
    model: BertForMaskedLM, rows: datasets.Dataset, *, document_start: int, seed: int
) -> None:
    """Set the token embeddings to co-occurrence vectors and the decoder's bias to the log frequencies.

    A vector's length falls with its token's frequency, as in a frequency-weighted mean. The decoder is tied,
    so its rows change too, and with the bias the untrained model already predicts each token's frequency.
    """
    size, width = model.get_input_embeddings().weight.shape
    near, counts = count_cooccurrences(rows, size, document_start=document_start)
    vectors = cooccurrence_vectors(near, width, seed=seed)
    frequencies = (counts + 1.0) / (counts + 1.0).sum()  # (vocabulary,), none is zero
    lengths = _SCALE * width**0.5 * (_SMOOTH_FREQUENCY / (_SMOOTH_FREQUENCY + frequencies))
    start = torch.from_numpy((vectors * lengths[:, None]).astype(np.float32))
    known = torch.from_numpy(np.linalg.norm(vectors, axis=1) > 0)
    with torch.no_grad():
        model.get_input_embeddings().weight[known] = start[known]
        model.cls.predictions.bias.copy_(torch.from_numpy(np.log(frequencies)))


def count_cooccurrences(
    rows: datasets.Dataset, vocabulary: int, *, document_start: int, window: int = 8
) -> tuple[sparse.csr_matrix, NDArray[np.int64]]:
    """Count how often tokens stand near each other in a document, nearer ones for more, and every token."""
    near = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float32)
    counts = np.zeros(vocabulary, dtype=np.int64)
    before = np.empty(0, dtype=np.int64)  # tokens whose neighbors may be in the next rows
    for start in range(0, len(rows), _ROWS):
        fresh = np.concatenate(rows[start : start + _ROWS]["tokens"])
        counts += np.bincount(fresh, minlength=vocabulary)
        tokens = np.concatenate([before, fresh])
        documents = np.cumsum(tokens == document_start)
        for distance in range(1, window + 1):
            # A pair is counted where its second token is new.
            first = max(0, len(before) - distance)
            left, right = slice(first, len(tokens) - distance), slice(first + distance, len(tokens))
            same = documents[left] == documents[right]
            pairs = (tokens[left][same], tokens[right][same])
            weights = np.full(len(pairs[0]), 1 / distance, dtype=np.float32)
            near = near + sparse.coo_matrix((weights, pairs), shape=near.shape).tocsr()
        before = tokens[-window:]
    return (near + near.T).tocsr(), counts


def cooccurrence_vectors(near: sparse.csr_matrix, width: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return a vector of unit length for every token; a token that never occurs has the zero vector.

    Positive pointwise mutual information of neighboring tokens with smoothed contexts, factored by a
    truncated singular value decomposition (Levy and Goldberg, Neural Word Embedding as Implicit Matrix
    Factorization, NeurIPS 2014; Levy, Goldberg and Dagan, TACL 2015, for the smoothed contexts and the roots
    of the singular values).
    """
    information = positive_pmi(near, least=1.0)
    if np.count_nonzero(information.getnnz(axis=1)) <= width:
        raise InputError(
            f"the corpus is too small for co-occurrence vectors of {width} dimensions",
            "use more text, or --initialise random",
        )
    left, values, _ = randomized_svd(information, width, n_iter=3, random_state=seed)
    vectors: Any = left * np.sqrt(values)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return np.asarray(unit, dtype=np.float32)


def positive_pmi(near: sparse.csr_matrix, *, least: float = 0.0) -> sparse.csr_matrix:
    """Return positive pointwise mutual information with smoothed contexts."""
    table = near.tocoo()
    totals = np.asarray(near.sum(axis=1)).ravel()  # (vocabulary,)
    smoothed = totals**_SMOOTHING
    with np.errstate(divide="ignore"):
        row, column = np.log(totals / totals.sum()), np.log(smoothed / smoothed.sum())
    value = np.log(table.data / totals.sum()) - row[table.row] - column[table.col]
    keep = (value > 0) & (table.data >= least)
    entries = value[keep].astype(np.float32), (table.row[keep], table.col[keep])
    return sparse.csr_matrix(entries, shape=near.shape)
