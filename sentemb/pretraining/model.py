"""Masked language models: a new small BERT, an existing base, and their loss at the hidden positions only."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import torch
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
from sentemb._files import new_folder
from sentemb.errors import InputError
from sentemb.modules.check import AGAIN, check_weights, expected_of_a_masked_model, readable
from sentemb.modules.source import find_source
from sentemb.pretraining.tokens import TokenStore

_SMOOTHING = 0.75  # of the context distribution (TACL 2015, section 3.1)
_CHUNK = 4_000_000
# Below this frequency a token's vector has its full length; above, it shrinks. The constant is that of
# frequency-weighted means (Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline, ICLR 2017).
_SMOOTH_FREQUENCY = 1e-3
_SCALE = 0.05  # standard deviation of the vector of a rare token


def new_bert(
    tokenizer: PreTrainedTokenizerFast,
    *,
    layers: int = 6,
    width: int = 256,
    heads: int = 4,
    inner_width: int = 1024,
    positions: int = 128,
    seed: int = 0,
) -> BertForMaskedLM:
    """Return a randomly initialized BERT with a tied decoder."""
    if width % heads:
        raise InputError(f"the width {width} is not divisible by {heads} heads", "change --width or --heads")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BertForMaskedLM(config)


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


def save_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, *, half: bool = False
) -> Path:
    """Write a model as a plain transformers folder.

    Args:
        folder: It must not exist yet.
        model: With its masked-language-model head, so that pre-training can continue from it.
        tokenizer: Saved next to it.
        half: Store float16 weights, half the size. The configuration still asks for float32, so that loaders
            compute in it.

    Returns:
        `folder`.

    Raises:
        InputError: The folder is taken.

    Example:
        >>> folder = save_model(Path("base"), model, tokenizer)  # doctest: +SKIP
    """
    with new_folder(folder) as partial:
        state = model.state_dict()
        if half:
            # One copy for each storage: tied weights have to stay tied, or they are written twice.
            halves = {value.data_ptr(): value.half() for value in state.values()}
            state = {name: halves[value.data_ptr()] for name, value in state.items()}
        model.save_pretrained(partial, state_dict=state)
        tokenizer.save_pretrained(partial)
    return folder


def first_position(model: PreTrainedModel) -> int | None:
    """Return the position id of a first token, when the model lets a caller set positions."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if (
        not isinstance(table, nn.Embedding)
        or "position_ids" not in inspect.signature(model.forward).parameters
    ):
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


def start_from_cooccurrence(model: BertForMaskedLM, store: TokenStore, *, seed: int) -> None:
    """Set the token embeddings to co-occurrence vectors and the decoder's bias to the log frequencies.

    A vector's length falls with its token's frequency, as in a frequency-weighted mean. The decoder is tied,
    so its rows change too, and with the bias the untrained model already predicts each token's frequency.
    """
    size, width = model.get_input_embeddings().weight.shape
    vectors = cooccurrence_vectors(store, size, width, seed=seed)
    counts = np.bincount(store.tokens, minlength=size) + 1.0  # none is zero
    frequencies = counts / counts.sum()  # (vocabulary,)
    lengths = _SCALE * width**0.5 * (_SMOOTH_FREQUENCY / (_SMOOTH_FREQUENCY + frequencies))
    start = torch.from_numpy((vectors * lengths[:, None]).astype(np.float32))
    known = torch.from_numpy(np.linalg.norm(vectors, axis=1) > 0)
    with torch.no_grad():
        model.get_input_embeddings().weight[known] = start[known]
        model.cls.predictions.bias.copy_(torch.from_numpy(np.log(frequencies)))


def cooccurrence_vectors(store: TokenStore, vocabulary_size: int, width: int, *, seed: int = 0) -> np.ndarray:
    """Return a vector of unit length for every token; a token that never occurs has the zero vector.

    Positive pointwise mutual information of neighboring tokens, factored by a truncated singular value
    decomposition (Levy and Goldberg, Neural Word Embedding as Implicit Matrix Factorization, NeurIPS 2014;
    Levy, Goldberg and Dagan, TACL 2015, for the smoothed contexts and the roots of the singular values).
    """
    information = positive_pmi(count_cooccurrences(store, vocabulary_size), least=1.0)
    if np.count_nonzero(information.getnnz(axis=1)) <= width:
        raise InputError(
            f"the corpus is too small for co-occurrence vectors of {width} dimensions",
            "use more text, or --initialise random",
        )
    left, values, _ = randomized_svd(information, width, n_iter=3, random_state=seed)
    vectors = left * np.sqrt(values)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return np.asarray(unit, dtype=np.float32)


def count_cooccurrences(store: TokenStore, vocabulary_size: int, *, window: int = 8) -> sparse.csr_matrix:
    """Count how often two tokens stand near each other inside a document, nearer ones for more."""
    shape = (vocabulary_size, vocabulary_size)
    counts = sparse.csr_matrix(shape, dtype=np.float32)
    documents = np.zeros(len(store.tokens), dtype=np.int32)
    documents[store.documents[1:-1]] = 1
    documents = np.cumsum(documents, dtype=np.int32)
    for start in range(0, len(store.tokens), _CHUNK):
        for distance in range(1, window + 1):
            stop = max(start, min(start + _CHUNK, len(store.tokens) - distance))
            left, right = slice(start, stop), slice(start + distance, stop + distance)
            near = documents[left] == documents[right]
            pairs = (store.tokens[left][near], store.tokens[right][near])
            weights = np.full(len(pairs[0]), 1 / distance, dtype=np.float32)
            counts = counts + sparse.coo_matrix((weights, pairs), shape=shape).tocsr()
    return (counts + counts.T).tocsr()


def positive_pmi(counts: sparse.csr_matrix, *, least: float = 0.0) -> sparse.csr_matrix:
    """Return positive pointwise mutual information with smoothed contexts."""
    table = counts.tocoo()
    totals = np.asarray(counts.sum(axis=1)).ravel()  # (vocabulary,)
    smoothed = totals**_SMOOTHING
    with np.errstate(divide="ignore"):
        row, column = np.log(totals / totals.sum()), np.log(smoothed / smoothed.sum())
    value = np.log(table.data / totals.sum()) - row[table.row] - column[table.col]
    keep = (value > 0) & (table.data >= least)
    entries = value[keep].astype(np.float32), (table.row[keep], table.col[keep])
    return sparse.csr_matrix(entries, shape=counts.shape)
