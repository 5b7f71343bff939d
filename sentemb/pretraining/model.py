"""Masked language models: a new small BERT, an existing base, and their loss at the hidden positions only."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path

import numpy as np
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
from sentemb._files import new_folder
from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.modules.folder_checks import AGAIN
from sentemb.modules.model_checks import check_weights
from sentemb.modules.source import find_source, readable
from sentemb.modules.weights import expected_of_a_masked_model

# Below this frequency a token's vector has its full length; above, it shrinks. The constant is that of
# frequency-weighted means (Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline, ICLR 2017).
_SMOOTH_FREQUENCY = 1e-3


def new_bert(
    tokenizer: PreTrainedTokenizerFast,
    *,
    layers: int = 6,
    width: int = 256,
    heads: int = 4,
    inner_width: int = 1024,
    positions: int = 128,
    dropout: float = 0.1,
    seed: int = 0,
) -> BertForMaskedLM:
    """A randomly initialised BERT with a tied decoder."""
    if width % heads:
        raise InputError(f"the width {width} is not divisible by {heads} heads", "change --width or --heads")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BertForMaskedLM(config)


def load_base(base: str | Path, *, seed: int = 0) -> PreTrainedModel:
    """An existing base model with its masked-language-model head, a new one where it has none."""
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
        tokenizer: Saved beside it.
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


def start_from_cooccurrence(
    model: BertForMaskedLM, vectors: np.ndarray, frequencies: np.ndarray, *, scale: float
) -> None:
    """Set the token embeddings to co-occurrence vectors and the decoder's bias to the log frequencies.

    A vector's length falls with its token's frequency, as in a frequency-weighted mean. The decoder is tied,
    so its rows change too, and with the bias the untrained model already predicts each token's frequency.
    """
    weights = _SMOOTH_FREQUENCY / (_SMOOTH_FREQUENCY + frequencies)  # (vocabulary,)
    known = torch.from_numpy(np.linalg.norm(vectors, axis=1) > 0)
    lengths = scale * vectors.shape[1] ** 0.5 * weights
    start = torch.from_numpy((vectors * lengths[:, None]).astype(np.float32))
    with torch.no_grad():
        model.get_input_embeddings().weight[known] = start[known]
        model.cls.predictions.bias.copy_(torch.from_numpy(np.log(frequencies)))


def stack_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """A deeper model whose layers are those of a shallow one, repeated.

    Training the shallow model first and then the stack costs less than training the deep one
    throughout (Gong et al., Efficient Training of BERT by Progressively Stacking, ICML 2019).
    """
    shallow = getattr(getattr(model.base_model, "encoder", None), "layer", None)
    if not isinstance(shallow, nn.ModuleList):
        raise InputError(f"the layers of {type(model).__name__} cannot be stacked", "remove --stack-to")
    count = len(shallow)
    if layers < count or layers % count:
        raise InputError(
            f"--stack-to {layers} is not a multiple of the base's {count} layers",
            f"set --stack-to to a multiple of {count}",
        )
    added = (layers - count) // count * sum(weight.numel() for weight in shallow.parameters())
    refuse_above("weights", added / 1e6, f"--stack-to {layers}")
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    deep = type(model)(config)
    deep.load_state_dict(model.state_dict(), strict=False)
    for number in range(count, layers):
        deep.base_model.encoder.layer[number].load_state_dict(shallow[number % count].state_dict())
    return deep


def first_position(model: PreTrainedModel) -> int | None:
    """The position id of a first token, when the model lets a caller set positions."""
    embeddings = getattr(model.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    if (
        not isinstance(table, nn.Embedding)
        or "position_ids" not in inspect.signature(model.forward).parameters
    ):
        return None
    return 0 if table.padding_idx is None else table.padding_idx + 1


def longest_input(model: PreTrainedModel) -> int:
    """Most tokens that the model takes."""
    return int(model.config.max_position_embeddings) - (first_position(model) or 0)


def masked_loss(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """Mean cross-entropy at the hidden positions, with the vocabulary projected there only; 0 without any."""
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
