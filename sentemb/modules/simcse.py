"""The published SimCSE checkpoints: their pooling and the location of their MLP.

A wrong pooling does not fail, it scores 20 points less. Converted checkpoints carry the MLP as the pooler,
folders straight from the training script under a name that transformers leaves out.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from sentemb._compat import Dense, Transformer
from sentemb.errors import InputError
from sentemb.modules.poolings import Poolings
from sentemb.modules.source import ModelSource

logger = logging.getLogger(__name__)


def published_pooling(source: ModelSource) -> Poolings | None:
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


def head_key_mapping(source: ModelSource) -> dict[str, str]:
    """Return the key mapping with which transformers loads the MLP of SimCSE's training script."""
    if not _is_training_output(source):
        return {}
    return {r"^mlp\.dense\.": f"{source.config.get('model_type', 'bert')}.pooler.dense."}


def has_published_head(source: ModelSource) -> bool:
    """Return whether a model without modules contains SimCSE's MLP, which is then loaded as its pooler."""
    return _is_training_output(source) or "sup-simcse" in Path(source.address).name  # also in unsup-simcse


def load_head(head: Dense, transformer: Transformer, source: ModelSource) -> None:
    """Copy the checkpoint's weights into the Dense + tanh of `cls-mlp`, if it has them."""
    pooler = getattr(transformer.model, "pooler", None)
    if pooler is None or not has_published_head(source):
        logger.warning("cls-mlp: the Dense + tanh head of %s is new and needs training", source.address)
        return
    if "unsup-simcse" in Path(source.address).name:
        logger.warning("%s was published for cls pooling; its MLP was used for training only", source.address)
    with torch.no_grad():
        head.linear.weight.copy_(pooler.dense.weight)
        head.linear.bias.copy_(pooler.dense.bias)


def _is_training_output(source: ModelSource) -> bool:
    return source.architecture.endswith("ForCL")  # BertForCL and RobertaForCL
