"""The only file that touches private or moved names of upstream libraries.

sentence-transformers 6.2 keeps the base classes of custom losses, evaluators and trainers under `base/`. If a
release moves one of these names, fix it here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation.evaluator import BaseEvaluator as BaseEvaluator
from sentence_transformers.base.losses.gradcache import CachedLossMixin as CachedLossMixin
from sentence_transformers.base.losses.gradcache import RandContext as RandContext
from sentence_transformers.base.losses.gradcache import _create_minibatch
from sentence_transformers.base.losses.merged_forward import merge_feature_batches as merge_feature_batches
from sentence_transformers.base.modules.module import Module as Module
from sentence_transformers.base.modules.router import Router as Router
from sentence_transformers.sentence_transformer.modules import Dense as Dense
from sentence_transformers.sentence_transformer.modules import Normalize as Normalize
from sentence_transformers.sentence_transformer.modules import Pooling as Pooling
from sentence_transformers.sentence_transformer.modules import StaticEmbedding as StaticEmbedding
from sentence_transformers.sentence_transformer.modules import Transformer as Transformer
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling as WeightedLayerPooling
from sentence_transformers.util.distributed import all_gather_with_grad as all_gather_with_grad
from sentence_transformers.util.distributed import get_rank as get_rank
from sentence_transformers.util.distributed import get_world_size as get_world_size
from transformers import modeling_utils

from sentemb.errors import InputError

slice_minibatch = _create_minibatch
_HEAD_BIAS = re.compile(r"specifies to tie \S+\.bias to \S+\.bias, but both are absent")


def load_with_module_classes(
    address: str, classes: Mapping[str, type[torch.nn.Module]], **options: Any
) -> SentenceTransformer:
    """Load a model whose `modules.json` may name the given classes in addition to upstream's."""
    return SentenceTransformer._load_with_module_classes(address, classes, **options)


def input_of_route(router: Router, task: str | None) -> torch.nn.Module:
    """Return the module that reads the texts of a task; or raise InputError if there is no route."""
    try:
        module: torch.nn.Module = router.sub_modules[router._resolve_route(task=task, modality="text")][0]
        return module
    except ValueError as error:
        raise InputError(f"the model's Router: {error}", "set default_route in the Router") from None


@contextmanager
def networks_by(build: Callable[[Any], torch.nn.Module]) -> Iterator[None]:
    """Let a function build the networks of loaded transformers from their configurations."""
    load = Transformer._load_model

    def made(self: Any, address: str, task: str, config: Any, *_: Any, **__: Any) -> torch.nn.Module:
        return build(config)

    Transformer._load_model = made
    try:
        yield
    finally:
        Transformer._load_model = load


@contextmanager
def load_reports_through(reviewed: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Let a function review how a checkpoint differs from the model before transformers reports it.

    transformers also warns about a bias that the layers of a new head share; this warning is suppressed.
    """
    log = modeling_utils.log_state_dict_report

    def report(*, model: Any, loading_info: Any, **options: Any) -> None:
        log(model=model, loading_info=reviewed(model, loading_info), **options)

    def wanted(record: logging.LogRecord) -> bool:
        return not _HEAD_BIAS.search(record.getMessage())

    modeling_utils.log_state_dict_report = report
    modeling_utils.logger.addFilter(wanted)
    try:
        yield
    finally:
        modeling_utils.logger.removeFilter(wanted)
        modeling_utils.log_state_dict_report = log


@lru_cache(maxsize=1)
def packed_linear_dtypes() -> tuple[torch.dtype, ...]:
    """Return the dtypes in which this build and processor compute linear layers with packed weights (oneDNN).

    torch's own compiler emits these operators; they do not have a public name.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    try:
        inputs, weight = torch.ones(2, 16), torch.ones(4, 16)
        with torch.inference_mode():
            result = packed_linear(inputs, pack_linear_weight(weight), None)
    except (AttributeError, RuntimeError):  # the operator is missing or refuses
        return ()
    if not torch.equal(result, torch.full((2, 4), 16.0)):
        return ()
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return (torch.float32, torch.bfloat16) if supported is not None and supported() else (torch.float32,)


def pack_linear_weight(weight: torch.Tensor) -> torch.Tensor:
    """Pack the weight of a linear layer for oneDNN."""
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def packed_linear(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, gelu: bool = False
) -> torch.Tensor:
    """Apply a linear layer whose weight is packed, and GELU to what it gives."""
    then = ("gelu", "none") if gelu else ("none", "")
    outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, then[0], [], then[1])
    return outputs


def fused_adam(
    weights: torch.Tensor,
    gradients: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    steps: torch.Tensor,
    *,
    learning_rate: float,
) -> None:
    """Take one step of torch's Adam with its default betas, without the bookkeeping of `torch.optim`."""
    torch._fused_adam_(
        [weights],
        [gradients],
        [mean],
        [square],
        [],
        [steps],
        lr=learning_rate,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )


def quiet_ray(ray: Any) -> None:
    """Keep the long reports of Ray's nodes about dead workers off standard output."""
    ray._private.worker._worker_logs_enabled = False
