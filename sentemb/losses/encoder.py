"""Access to parts of a SentenceTransformer: transformer, pooling, and what self-guidance freezes."""

from __future__ import annotations

import hashlib
import logging

import torch
from torch import Tensor, nn

from sentemb._compat import Normalize, Pooling, Transformer
from sentemb.errors import InputError

logger = logging.getLogger(__name__)


def unwrap(model: nn.Module) -> nn.Module:
    """Return the SentenceTransformer inside DDP and `torch.compile` wrappers."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def transformer_module(model: nn.Module, *, loss: str) -> Transformer:
    """Return the first module of a model, which holds the transformer and its tokenizer."""
    first = next(unwrap(model).children(), None)
    if not isinstance(first, Transformer):
        raise InputError(
            f"{loss} needs a transformer encoder, but this model starts with {type(first).__name__}",
            "build the encoder from a transformer base model",
        )
    return first


def pooling_names(model: nn.Module) -> tuple[str, ...] | None:
    """Return the names of the model's poolings; None if it does not have a pooling module."""
    for module in unwrap(model).children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return (mode,) if isinstance(mode, str) else tuple(mode)
    return None


def embeddings_module(transformer: nn.Module) -> nn.Module:
    """Return the whole embedding module of a transformer, including its LayerNorm.

    BERT, RoBERTa, MPNet, DistilBERT, ELECTRA, ALBERT, DeBERTa and ModernBERT keep token, position and segment
    tables and the LayerNorm in a module called `embeddings`. Elsewhere the token table alone is returned.
    """
    table: nn.Module = transformer.get_input_embeddings()  # type: ignore[operator]
    for name, module in transformer.named_modules():
        if name.rsplit(".", 1)[-1] == "embeddings" and any(child is table for child in module.modules()):
            embeddings: nn.Module = module
            return embeddings
    return table


def freeze_outside_layers(module: Transformer) -> None:
    """Freeze the embeddings, and a pooler head that the sentence vector does not use.

    The pooler gets no gradient from the sentence vector, and DDP rejects a gradient that the weight
    regulariser alone would send it. An existing optimiser skips parameters without a gradient.
    """
    frozen = [embeddings_module(module.model)]
    pooler = getattr(module.model, "pooler", None)
    if pooler is not None and module.module_output_name == "token_embeddings":
        frozen.append(pooler)
    for part in frozen:
        for parameter in part.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None


def ends_normalised(model: nn.Module) -> bool:
    """Return whether a model scales its vectors to length 1."""
    return any(isinstance(module, Normalize) for module in unwrap(model).children())


def check_sentence_vector(model: nn.Module, width: int, *, loss: str) -> None:
    """Raise InputError if vectors and hidden states differ in width; log a pooling that is not CLS."""
    dimension = unwrap(model).get_embedding_dimension()  # type: ignore[operator]
    if dimension != width:
        raise InputError(
            f"{loss} projects vectors and hidden states with the same head, but the encoder's vectors "
            f"have {dimension} dimensions and its hidden states {width}",
            "build the encoder with pooling='cls' and without further layers",
        )
    pooling = pooling_names(model)
    if pooling not in (("cls",), None):
        logger.info(
            "the paper of %s uses the CLS vector as sentence vector, but this encoder uses the "
            "pooling %s. Load it with pooling='cls' to follow the paper.",
            loss,
            ", ".join(pooling or ()),
        )


def fingerprint(module: nn.Module) -> Tensor:
    """Compute a checksum of all parameters and buffers that hidden states depend on.

    A pooler is skipped because hidden states do not depend on it. If a checkpoint lacks a pooler, its weights
    are random, and runs with different seeds would appear to have different frozen encoders.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.startswith("pooler."):
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)
