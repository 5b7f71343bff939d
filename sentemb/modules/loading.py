"""Loading of models: a base model with a pooling, or a complete encoder."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, get_args

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

from sentemb._compat import Dense, Router, Transformer, load_with_module_classes
from sentemb.errors import InputError
from sentemb.modules.check import check_model, check_saved_modules, loading
from sentemb.modules.exported import exported_networks
from sentemb.modules.flow import FlowModule
from sentemb.modules.poolings import (
    LayerPooling,
    Poolings,
    freeze_fixed_layer_weights,
    has_cls_mlp,
    needs_hidden_states,
    pooling_modules,
)
from sentemb.modules.prompting import MaskPooling
from sentemb.modules.rank_vectors import RankVectors
from sentemb.modules.rounding import RoundedVectors
from sentemb.modules.source import ModelSource, check_kind, find_source, naming_code
from sentemb.modules.wk_pooling import WKPooling

logger = logging.getLogger(__name__)

CUSTOM_MODULES: tuple[type[nn.Module], ...] = (
    FlowModule,
    LayerPooling,
    MaskPooling,
    RankVectors,
    RoundedVectors,
    WKPooling,
)
"""Modules that plain sentence-transformers does not have.

sentence-transformers imports third-party modules only with `trust_remote_code=True`, which would run any code
that the folder names. Here the folder can only choose among these classes, and none of its code runs.
"""


def load(
    name_or_path: str | Path,
    *,
    pooling: Poolings | None = None,
    max_length: int | None = None,
    device: str | None = None,
    revision: str | None = None,
) -> SentenceTransformer:
    """Load a model from a folder, by the name of a bundled model, or by hub id.

    A local folder takes precedence over bundled models, and these over the hub. Only the hub needs a network
    connection.

    A sentence-transformers model keeps its own modules unless `pooling` is set. Then the pooling replaces
    them, and the transformer and the prompts are kept; `cls-mlp` also keeps a Dense + tanh that follows CLS
    pooling. A pretrained base (a transformer without sentence-level training) gets the pooling of
    `default_pooling` and a warning if `pooling` is not set.

    A saved model loads in plain sentence-transformers, unless it contains modules of sentemb (`FlowModule`,
    `MaskPooling`, `RankVectors`, `WKPooling`).

    Args:
        name_or_path: The folder, the name or the hub id.
        pooling: Pooling from token embeddings to the sentence embedding; see `Poolings`.
        max_length: Longest input in tokens, including special tokens; None keeps the model's own limit.
        device: Device of the model; None is the default of sentence-transformers.
        revision: Branch, tag or commit of a hub id.

    Returns:
        The model. Code in its folder is never run.

    Raises:
        InputError: The model does not exist or cannot be read, or it does not support the pooling or length.

    Example:
        >>> model = sentemb.load("bert-mini", pooling="cls", max_length=32)  # doctest: +SKIP
    """
    check_options(pooling, device)
    source = find_source(str(name_or_path), revision=revision)
    check_kind(source)
    with naming_code(source):
        if pooling is None and source.has_modules:
            model = _open(source, device=device)
            freeze_fixed_layer_weights(model)
        else:
            model = _with_pooling(source, pooling, device=device)
    transformers = [module for module in model.modules() if isinstance(module, Transformer)]
    if max_length is not None and not transformers:
        raise InputError(
            f"{type(model[0]).__name__} does not support max_length (here {max_length})", "remove max_length"
        )
    for transformer in transformers:
        tokenizer: Any = transformer.tokenizer
        if tokenizer is not None and tokenizer.pad_token is None:  # poolings ignore padding
            tokenizer.pad_token = tokenizer.eos_token
        _limit_length(transformer, max_length, source.address)
    check_model(model, source.address)
    return model


def check_options(pooling: str | None, device: str | None) -> None:
    """Raise InputError if the pooling or the device does not exist, before anything is loaded."""
    if pooling is not None and pooling not in get_args(Poolings):
        raise InputError(f"unknown pooling {pooling!r}", f"choose one of {', '.join(get_args(Poolings))}")
    if device is None:
        return
    try:
        torch.zeros(1, device=device).cpu()
    # torch raises an AssertionError where it was built without the device's library.
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        devices = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        devices += ["mps"] if torch.backends.mps.is_available() else []
        raise InputError(
            f"the device {device!r} is not available on this machine", f"choose among {', '.join(devices)}"
        ) from error


def is_finished_encoder(base: str | Path, *, revision: str | None = None) -> bool:
    """Return whether a model is a complete sentence encoder with its own pooling, not a pretrained base.

    Args:
        base: Name of a bundled model, folder or hub id.
        revision: Branch, tag or commit of a hub id.

    Returns:
        True if it has a `modules.json`.

    Raises:
        InputError: The model does not exist or is not an encoder.

    Example:
        >>> is_finished_encoder("static-mini")
        True
    """
    source = find_source(str(base), revision=revision)
    check_kind(source)
    return source.has_modules


def default_pooling(source: ModelSource) -> Poolings | None:
    """Choose the pooling of a pretrained base, as sentence-transformers does, and as SimCSE's paper does.

    None stands for models such as CLIP, which compute text vectors without a pooling.
    """
    if published := _published_pooling(source):
        return published
    if "vision_config" in source.config:
        return None
    # sentence-transformers uses the mean for GPT-2, whose architecture is called GPT2LMHeadModel.
    is_known_decoder = source.is_decoder and source.architecture.endswith("ForCausalLM")
    return "last-token" if is_known_decoder else "mean"


def _with_pooling(source: ModelSource, named: Poolings | None, *, device: str | None) -> SentenceTransformer:
    """Load a transformer and add the named pooling, or its default, in place of its own modules."""
    address = source.address
    if named in ("cls", "cls-mlp") and source.is_decoder:
        raise InputError(
            f"{address} is a decoder: its first token, which {named} pooling uses, does not "
            "see the rest of the text",
            "use the pooling last-token, mean or max",
        )
    pooling = named or default_pooling(source)
    reads_pooler = pooling == "cls-mlp" and _has_published_head(source)
    own: list[Any] = []
    options: dict[str, Any] = {}
    if source.has_modules:
        model = _open(source, device="cpu", needs_pooler=reads_pooler)
        transformer, *own = model
        if not isinstance(transformer, Transformer):
            raise InputError(
                f"{address} starts with {type(transformer).__name__} instead of a transformer, so its "
                "pooling cannot be changed",
                "remove the pooling option to use the model as it is",
            )
        options = {"prompts": model.prompts, "default_prompt_name": model.default_prompt_name}
    else:
        at: dict[str, Any] = {"revision": source.revision}
        weights = at | _head_key_mapping(source)
        with loading(address, needs_pooler=reads_pooler):
            transformer = Transformer(address, model_kwargs=weights, processor_kwargs=at, config_kwargs=at)
    modules = [transformer]
    if transformer.module_output_name != "token_embeddings":
        if named is not None:
            raise InputError(
                f"{address} computes the text vector itself, so {named} pooling does not have "
                "token vectors to pool",
                "remove the pooling option",
            )
    elif pooling is not None:
        if named is None and not _published_pooling(source):
            logger.warning(
                "%s is a pretrained base without a pooling (not trained for sentences): %s pooling is used. "
                "Set pooling to choose another one.",
                address,
                pooling,
            )
        transformer.model.config.output_hidden_states = needs_hidden_states(pooling)
        kept = own[:2] if pooling == "cls-mlp" and has_cls_mlp(own) else []
        modules += kept or pooling_modules(transformer, pooling)
        if pooling == "cls-mlp" and not kept:
            _load_head(modules[-1], transformer, source)
        if dropped := [type(module).__name__ for module in own[len(kept) :]]:
            logger.info(
                "%s: the pooling %s of the model is replaced by %s", address, ", ".join(dropped), pooling
            )
    return SentenceTransformer(modules=modules, device=device, **options)


def _open(source: ModelSource, *, device: str | None, needs_pooler: bool = False) -> SentenceTransformer:
    """Load a model with its own modules, which can be those of sentemb."""
    address = source.address
    classes = {f"{module.__module__}.{module.__qualname__}": module for module in CUSTOM_MODULES}
    with loading(address, needs_pooler=needs_pooler), exported_networks(address):
        model = load_with_module_classes(address, classes, device=device, revision=source.revision)
    check_saved_modules(model, address)
    for module in model.children():
        if isinstance(module, MaskPooling):
            module.attach(model[0])  # transformers does not restore what a tokenizer adds to a text
    return model


# The published SimCSE checkpoints. A wrong pooling does not fail, it scores 20 points less. Converted
# checkpoints carry the MLP as the pooler, folders straight from the training script under a name that
# transformers leaves out.


def _published_pooling(source: ModelSource) -> Poolings | None:
    """Return the pooling that the publication of a pretrained base specifies, if any."""
    name = Path(source.address).name
    if "unsup-simcse" in name:
        return "cls"
    if "sup-simcse" in name:
        return "cls-mlp"
    if _is_training_output(source):
        raise InputError(
            f"{source.address} is a SimCSE training checkpoint, which does not specify its pooling",
            "set the pooling cls if it was trained unsupervised, or cls-mlp if it was trained supervised",
        )
    return None


def _is_training_output(source: ModelSource) -> bool:
    return source.architecture.endswith("ForCL")  # BertForCL and RobertaForCL


def _has_published_head(source: ModelSource) -> bool:
    """Return whether a model contains SimCSE's MLP, which is then loaded as its pooler."""
    return _is_training_output(source) or "sup-simcse" in Path(source.address).name  # also in unsup-simcse


def _head_key_mapping(source: ModelSource) -> dict[str, Any]:
    """Return the option with which transformers loads the MLP of SimCSE's training script."""
    if not _is_training_output(source):
        return {}
    pooler = f"{source.config.get('model_type', 'bert')}.pooler.dense."
    return {"key_mapping": {r"^mlp\.dense\.": pooler}}


def _load_head(head: Dense, transformer: Transformer, source: ModelSource) -> None:
    """Copy the checkpoint's weights into the Dense + tanh of `cls-mlp`, if it has them."""
    pooler = getattr(transformer.model, "pooler", None)
    if pooler is None or not _has_published_head(source):
        logger.warning("cls-mlp: the Dense + tanh head of %s is new and needs training", source.address)
        return
    if "unsup-simcse" in Path(source.address).name:
        logger.warning("%s was published for cls pooling; its MLP was used for training only", source.address)
    with torch.no_grad():
        head.linear.weight.copy_(pooler.dense.weight)
        head.linear.bias.copy_(pooler.dense.bias)


# Lengths


def longest_input(model: SentenceTransformer) -> int | None:
    """Return the tokens of the longest input: the minimum of a Router's networks; None without a limit."""
    first = model[0]
    modules = [route[0] for route in first.sub_modules.values()] if isinstance(first, Router) else [first]
    found = [getattr(module, "max_seq_length", None) for module in modules]
    return min((int(one) for one in found if one is not None and math.isfinite(one)), default=None)


def shortest_input(model: SentenceTransformer, *, pairs: bool = False) -> int:
    """Return the tokens of the shortest input with the special tokens and one token per text."""
    return _shortest(getattr(model[0], "tokenizer", None), pairs=pairs)


def _shortest(tokenizer: Any, *, pairs: bool = False) -> int:
    # The plain tokenizers of static encoders and word vectors do not add special tokens.
    count = getattr(tokenizer, "num_special_tokens_to_add", None)
    special = 0 if count is None or isinstance(tokenizer, Tokenizer) else count(pair=pairs)
    return int(special) + (2 if pairs else 1)


def _limit_length(transformer: Transformer, max_length: int | None, address: str) -> None:
    """Set the longest input of a transformer; without one, lower its own limit to its positions."""
    own, shortest = transformer.max_seq_length, _shortest(transformer.tokenizer)
    rows = None  # that texts can use of the position table; None if positions are computed
    for module in transformer.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            # RoBERTa starts after its padding index.
            rows = table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
            break
    if max_length is None:
        if own is not None and own < shortest:
            raise InputError(
                f"the maximum input length of {address} is {own} tokens, which is too short for any text",
                f"set max_seq_length in its configuration, or pass a length of at least {shortest}",
            )
        if own is not None and rows is not None and own > rows:
            logger.warning(
                "%s reads at most %d tokens, not %d: longer texts are truncated", address, rows, own
            )
            transformer.max_seq_length = rows
        return
    longest, positions = own, getattr(transformer.config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        longest = max(own or 0, rows or positions)
    if max_length < shortest or (longest is not None and max_length > longest):
        raise InputError(
            f"max_length {max_length} is not supported by the model, which accepts {shortest} to "
            f"{longest} tokens",
            "choose a length in this range",
        )
    transformer.max_seq_length = max_length
