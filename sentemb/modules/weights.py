"""Weights that a checkpoint may lack or have in excess, and the settings that determine its output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.modules.folder_checks import AGAIN

# Pretraining heads by model type: checkpoints contain them, but sentence encoders do not use them.
_PRETRAINING_HEADS = {
    "albert": ("predictions", "sop_classifier"),
    "bert": ("cls.predictions", "cls.seq_relationship"),
    "camembert": ("lm_head",),
    "deberta": ("cls.predictions", "lm_predictions"),
    "deberta-v2": ("cls.predictions", "lm_predictions", "mask_predictions"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector"),
    "electra": ("discriminator_predictions", "generator_predictions", "generator_lm_head"),
    "modernbert": ("head", "decoder"),
    "mpnet": ("lm_head",),
    "roberta": ("lm_head",),
    "xlm-roberta": ("lm_head",),
}
# Trained to predict the next sentence; poolings read the tokens instead.
_POOLER = "pooler."
_INCIDENTAL = {"_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype"}


def expected_differences(address: str, *, needs_pooler: bool) -> Callable[[Any, Any], Any]:
    """Build the check of the differences between a checkpoint and the encoder that loads it."""

    def check(model: Any, differences: Any) -> Any:
        missing = {name for name in differences.missing_keys if needs_pooler or not name.startswith(_POOLER)}
        if missing:
            raise InputError(
                f"{address} lacks {len(missing)} of the weights that its configuration requires, such "
                f"as {min(missing)}",
                AGAIN,
            )
        for name, stored, wanted in sorted(differences.mismatched_keys)[:1]:
            raise InputError(
                f"the weight {name} of {address} has the shape {tuple(stored)}, but its configuration "
                f"requires {tuple(wanted)}",
                AGAIN,
            )
        if spare := sorted(name for name in differences.unexpected_keys if _is_of_a_layer(name, model)):
            raise InputError(
                f"{address} has weights of layers that are not in its configuration, such as {spare[0]}",
                "set the number of layers in its config.json, or save the model again",
            )
        for name in differences.missing_keys:
            # A random weight would change the checkpoint's fingerprint with every load, so cached vectors
            # and saved indexes would not match it.
            model.get_parameter(name).data.zero_()
        heads = _pretraining_heads(model)
        unexpected = {name for name in differences.unexpected_keys if not name.startswith(heads)}
        return replace(differences, missing_keys=missing, unexpected_keys=unexpected)

    return check


def expected_of_a_masked_model(model: Any, differences: Any) -> Any:
    """Ignore that an encoder's checkpoint lacks a masked-language-model head and may have a pooler."""
    heads = _pretraining_heads(model)
    missing = {name for name in differences.missing_keys if not name.startswith(heads)}
    unused = (*heads, _POOLER, f"{model.base_model_prefix}.{_POOLER}")
    unexpected = {name for name in differences.unexpected_keys if not name.startswith(unused)}
    return replace(differences, missing_keys=missing, unexpected_keys=unexpected)


def _pretraining_heads(model: Any) -> tuple[str, ...]:
    return tuple(f"{head}." for head in _PRETRAINING_HEADS.get(model.config.model_type, ()))


def _is_of_a_layer(name: str, model: nn.Module) -> bool:
    """Return whether a weight belongs to an additional layer of one of the model's stacks."""
    layer = re.match(r"(.+?)\.\d+\.", name.removeprefix(f"{model.base_model_prefix}."))
    try:
        return layer is not None and isinstance(model.get_submodule(layer[1]), nn.ModuleList)
    except AttributeError:
        return False


def lasting_settings(config: Any) -> dict[str, Any]:
    """Return a transformers configuration without its origin and the release that loaded it."""
    return {name: value for name, value in config.to_dict().items() if name not in _INCIDENTAL}


def add_weights(digest: hashlib._Hash, network: nn.Module) -> None:
    """Add all weights to a checksum; 100 MB take about 0.1 seconds."""
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
