"""Loading of models: a base model with a pooling, or a complete encoder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, get_args

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import Transformer
from sentemb.errors import InputError
from sentemb.modules.custom_modules import open_model
from sentemb.modules.devices import check_device
from sentemb.modules.kinds import check_kind, is_decoder, naming_code
from sentemb.modules.lengths import limit_length
from sentemb.modules.model_checks import check_model, check_saved_modules
from sentemb.modules.poolings import (
    Poolings,
    freeze_fixed_layer_weights,
    has_cls_mlp,
    needs_hidden_states,
    pooling_modules,
)
from sentemb.modules.simcse import has_published_head, head_key_mapping, load_head, published_pooling
from sentemb.modules.source import ModelSource, find_source, loading

logger = logging.getLogger(__name__)

_NO_POOLING = (
    "%s is a pretrained base without a pooling (not trained for sentences): %s pooling is used. Set "
    "pooling to choose another one."
)


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
    `WKPooling`).

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
    _give_padding(model)
    limit_length(model, max_length, address=source.address)
    check_model(model, source)
    return model


def check_options(pooling: str | None, device: str | None) -> None:
    """Raise InputError if the pooling or the device does not exist, before anything is loaded."""
    if pooling is not None and pooling not in get_args(Poolings):
        raise InputError(f"unknown pooling {pooling!r}", f"choose one of {', '.join(get_args(Poolings))}")
    check_device(device)


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
    """Choose the pooling of a pretrained base, as sentence-transformers does.

    Args:
        source: The model.

    Returns:
        The pooling of the paper for published SimCSE checkpoints, the last token for a decoder, the mean for
        others; None for models such as CLIP, which compute text vectors without a pooling.
    """
    if published := published_pooling(source):
        return published
    if "vision_config" in source.config:
        return None
    # sentence-transformers uses the mean for GPT-2, whose architecture is called GPT2LMHeadModel.
    is_known_decoder = is_decoder(source) and source.architecture.endswith("ForCausalLM")
    return "last-token" if is_known_decoder else "mean"


def _with_pooling(source: ModelSource, named: Poolings | None, *, device: str | None) -> SentenceTransformer:
    """Load a transformer and add the named pooling, or its default."""
    if named in ("cls", "cls-mlp") and is_decoder(source):
        raise InputError(
            f"{source.address} is a decoder: its first token, which {named} pooling uses, does not "
            "see the rest of the text",
            "use the pooling last-token, mean or max",
        )
    pooling = named or default_pooling(source)
    reads_pooler = pooling == "cls-mlp" and has_published_head(source)
    (transformer, *own), options = _load_modules(source, needs_pooler=reads_pooler)
    if transformer.module_output_name != "token_embeddings" and named is not None:
        raise InputError(
            f"{source.address} computes the text vector itself, so {named} pooling does not have "
            "token vectors to pool",
            "remove the pooling option",
        )
    modules = [transformer]
    if transformer.module_output_name == "token_embeddings" and pooling is not None:
        if named is None and not published_pooling(source):
            logger.warning(_NO_POOLING, source.address, pooling)
        transformer.model.config.output_hidden_states = needs_hidden_states(pooling)
        modules += _pooled_by(pooling, transformer, own, source)
    return SentenceTransformer(modules=modules, device=device, **options)


def _give_padding(model: SentenceTransformer) -> None:
    """Set the end-of-text token as padding token if a tokenizer lacks one; poolings ignore padding."""
    for transformer in model.modules():
        tokenizer: Any = getattr(transformer, "tokenizer", None)
        if isinstance(transformer, Transformer) and tokenizer is not None and tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token


def _open(source: ModelSource, *, device: str | None, needs_pooler: bool = False) -> SentenceTransformer:
    """Load a model with its own modules."""
    with loading(source.address, needs_pooler=needs_pooler):
        model = open_model(source.address, device=device, revision=source.revision)
    check_saved_modules(model, source)
    return model


def _pooled_by(
    pooling: Poolings, transformer: Transformer, own: list[nn.Module], source: ModelSource
) -> list[nn.Module]:
    """Return the modules that follow a transformer in place of its `own` ones."""
    if pooling == "cls-mlp" and has_cls_mlp(own):
        kept = 2
        modules = own[:kept]
    else:
        kept = 0
        modules = pooling_modules(transformer, pooling)
        if pooling == "cls-mlp":
            load_head(modules[-1], transformer, source)
    if dropped := [type(module).__name__ for module in own[kept:]]:
        logger.info(
            "%s: the pooling %s of the model is replaced by %s", source.address, ", ".join(dropped), pooling
        )
    return modules


def _load_modules(source: ModelSource, *, needs_pooler: bool) -> tuple[list[Any], dict[str, Any]]:
    """Load a transformer with the modules that follow it, and the options for its prompts."""
    if not source.has_modules:
        options = {"revision": source.revision}
        weights = {**options, "key_mapping": mapping} if (mapping := head_key_mapping(source)) else options
        with loading(source.address, needs_pooler=needs_pooler):
            transformer = Transformer(
                source.address, model_kwargs=weights, processor_kwargs=options, config_kwargs=options
            )
        return [transformer], {}
    model = _open(source, device="cpu", needs_pooler=needs_pooler)
    if not isinstance(model[0], Transformer):
        raise InputError(
            f"{source.address} starts with {type(model[0]).__name__} instead of a transformer, so its "
            "pooling cannot be changed",
            "remove the pooling option to use the model as it is",
        )
    return list(model), {"prompts": model.prompts, "default_prompt_name": model.default_prompt_name}
