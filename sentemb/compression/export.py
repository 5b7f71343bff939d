"""Export of a transformer to ONNX Runtime and OpenVINO, with the exporters of torch and openvino."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_OPSET = 18
_TALKATIVE = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export", "torch._export", "torch.fx")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class _Plain(nn.Module):
    """A network from positional tensors to the last layer's token vectors."""

    def __init__(self, network: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *inputs: Tensor) -> Tensor:
        output = self.network(**dict(zip(self.names, inputs, strict=True)), return_dict=True)
        found: Tensor = output.last_hidden_state
        return found


def export_onnx(transformer: Any, target: Path) -> None:
    """Write a transformer's network in float32, with dynamic numbers of texts and tokens.

    Args:
        transformer: The first module of a SentenceTransformer.
        target: The file.
    """
    network = copy.deepcopy(transformer.model).float().cpu().eval()
    network.config._attn_implementation = "eager"  # quantizers and runtimes support it best
    taken = inspect.signature(network.forward).parameters
    wanted = transformer.tokenizer.model_input_names
    names = tuple(name for name in _INPUTS if name in taken and name in wanted)
    example = torch.ones(2, 7, dtype=torch.long)
    inputs = tuple(torch.zeros_like(example) if name == _INPUTS[2] else example.clone() for name in names)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    with _quiet():
        program: Any = torch.onnx.export(
            _Plain(network, names).eval(),
            inputs,
            dynamo=True,
            verbose=False,
            input_names=[*names],
            output_names=["last_hidden_state"],
            # One entry for the variable arguments of `forward`.
            dynamic_shapes=(tuple(sizes for _ in names),),
            opset_version=_OPSET,
        )
        program.save(str(target), external_data=False)


def convert_to_openvino(graph: Path, target: Path) -> None:
    """Convert an ONNX graph to OpenVINO's format: `target` and its `.bin` file."""
    openvino: Any = import_module("openvino")
    openvino.save_model(openvino.convert_model(str(graph)), str(target), compress_to_fp16=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which logs pages about its internals if it fails."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    nowhere = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(nowhere), redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
