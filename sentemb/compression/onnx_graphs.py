"""A transformer as an ONNX graph: exported for ONNX Runtime and OpenVINO, with matrix products in int8.

Activations have one scale and zero point for all tokens, weights one scale per output. On its own this costs
much quality: in many transformers a few channels are ten times as large as the rest and determine the scale.
Four steps avoid that. The large channels go through a small float32 product alongside (as in LLM.int8(), but
chosen in advance). Uneven scales among the rest are moved into the weights (SmoothQuant). The mean error that
remains on the text goes into the bias. A product that still loses much stays in float32.

References:
    Dettmers et al.: LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale. NeurIPS 2022.
    Xiao et al.: SmoothQuant: Accurate and Efficient Post-Training Quantization for LLMs. ICML 2023.
"""

from __future__ import annotations

import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sentemb.errors import InputError

onnx: Any = import_module("onnx")  # its stubs do not cover the protobuf classes

Floats = NDArray[np.float32]
Features = Mapping[str, NDArray[np.int64]]

KEPT_CHANNELS = 16
"""Input channels of a product that stay in float32. In MiniLM 16 of 384 cause most of the error."""
MOST_ERROR = 1e-3
"""A product stays in float32 if its int8 form loses more than this share of the output's variance."""
_SMOOTHING = (0.0, 0.5, 0.65, 0.8)
_TOKENS = 2000
_LEAST_ROWS = 1000  # of a table that is rounded: only the vocabulary is that large
_LARGEST = 127
_OPSET = 18
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
    """Write the network of a Transformer module in float32, with dynamic numbers of texts and tokens."""
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
    # The exporter notes the places of its source files, which name folders of this machine.
    model = onnx.load(str(target))
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")
    onnx.save(model, str(target))


def convert_to_openvino(graph: Path, target: Path) -> None:
    """Convert an ONNX graph to OpenVINO's format: `target` and its `.bin` file."""
    openvino: Any = import_module("openvino")
    openvino.save_model(openvino.convert_model(str(graph)), str(target), compress_to_fp16=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which logs pages about its internals if it fails."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(nowhere), redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


class Product(NamedTuple):
    """An int8 form of the products that share an input."""

    scale: Floats  # divisor of each channel before rounding
    kept: NDArray[np.intp]  # channels that stay in float32
    step: float  # of the activations' grid
    zero: int  # point of the activations' grid
    weights: list[NDArray[np.int8]]  # codes of each product's weights
    steps: list[Floats]  # step of each output, for each product
    shifts: list[Floats]  # correction of each output, for each product
    error: float  # share of the outputs' variance that is lost


def quantize(graph: Path, target: Path, batches: Sequence[Features]) -> dict[str, Any]:
    """Write a graph with int8 products, calibrated on batches; return how many stay in float32."""
    model = onnx.load(str(graph))
    found = _products(model)
    if not found:
        raise InputError(
            "the graph does not have matrix products that can be quantized", "choose another variant"
        )
    inputs = _inputs(graph, [*found], batches)
    constants = {one.name: one for one in model.graph.initializer}
    kept = 0
    replaced = _rounded_tables(model)
    for name, nodes in found.items():
        if name not in inputs:
            kept += len(nodes)
            continue
        weights = [onnx.numpy_helper.to_array(constants[node.input[1]]) for node in nodes]
        product = best_product(inputs[name], weights)
        if product.error > MOST_ERROR:
            kept += len(nodes)
            continue
        before, each = _rewritten(model, name, nodes, weights, product)
        for number, node in enumerate(nodes):
            replaced[node.name] = [*(before if number == 0 else ()), *each[number]]
    rest = [new for node in model.graph.node for new in replaced.get(node.name, [node])]
    del model.graph.node[:]
    model.graph.node.extend(rest)
    used = {name for node in model.graph.node for name in node.input}
    constants_left = [one for one in model.graph.initializer if one.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(constants_left)
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
    return {"products": sum(map(len, found.values())), "in_float32": kept}


def best_product(inputs: Floats, weights: Sequence[Floats]) -> Product:
    """Return the int8 form of products (channels, outputs) of inputs (tokens, channels) that loses least."""
    return min((_product(inputs, weights, one) for one in _SMOOTHING), key=lambda form: form.error)


def _product(inputs: Floats, weights: Sequence[Floats], smoothing: float) -> Product:
    largest = np.abs(inputs).max(axis=0)
    kept = np.sort(np.argsort(-largest, kind="stable")[: min(KEPT_CHANNELS, inputs.shape[1] // 8)])
    rest = np.ones(inputs.shape[1], dtype=bool)
    rest[kept] = False
    scale = _scale(largest, np.max([np.abs(one).max(axis=1) for one in weights], axis=0), smoothing)
    scaled = inputs / scale
    low, high = min(0.0, float(scaled[:, rest].min())), max(0.0, float(scaled[:, rest].max()))
    step = (high - low) / 255 or 1.0
    zero = round(-low / step)
    rounded = ((np.rint(scaled / step) + zero).clip(0, 255) - zero) * step
    codes, steps, shifts = [], [], []
    lost = total = 0.0
    for one in weights:
        wide = np.where(rest[:, None], one * scale[:, None], 0)
        own = np.maximum(np.abs(wide).max(axis=0), 1e-12) / _LARGEST
        code = np.rint(wide / own).astype(np.int8)
        right = inputs @ one
        error = right - rounded @ (code * own) - inputs[:, kept] @ one[kept]
        shift = error.mean(axis=0)
        lost += float(np.square(error - shift).sum())
        total += float(np.square(right - right.mean(axis=0)).sum())
        codes.append(code)
        steps.append(own.astype(np.float32))
        shifts.append(shift.astype(np.float32))
    return Product(scale, kept, step, zero, codes, steps, shifts, lost / total if total else 0.0)


def _scale(largest: Floats, weights: Floats, smoothing: float) -> Floats:
    """Return the divisor of each channel; the median is 1."""
    if not smoothing:
        return np.ones_like(largest)
    floor = 0.05 * np.median(weights)
    scale = np.maximum(largest, 1e-3) ** smoothing / np.maximum(weights, floor) ** (1 - smoothing)
    return (scale / np.median(scale)).astype(np.float32)


def _products(model: Any) -> dict[str, list[Any]]:
    """Return the products with constant weights, by the name of their input."""
    constants = {one.name for one in model.graph.initializer if len(one.dims) == 2}
    found: dict[str, list[Any]] = {}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            found.setdefault(node.input[0], []).append(node)
    return found


def _inputs(graph: Path, names: Sequence[str], batches: Sequence[Features]) -> dict[str, Floats]:
    """Return rows of some tensors on real tokens, each of shape (tokens, channels).

    A tensor that does not have one row per token, such as one of relative positions, is skipped.
    """
    model = onnx.load(str(graph))
    types = onnx.TensorProto
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, types.FLOAT, None) for name in names)
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {one.name for one in session.get_inputs()}
    rows: dict[str, list[Floats]] = {name: [] for name in names}
    each = -(-_TOKENS // len(batches))
    generator = np.random.default_rng(0)
    for batch in batches:
        real = np.flatnonzero(batch["attention_mask"].ravel())
        drawn = generator.permutation(real)[:each]
        outputs = session.run([*names], {key: value for key, value in batch.items() if key in inputs})
        for name, output in zip(names, outputs, strict=True):
            if output.shape[:-1] == batch["attention_mask"].shape:
                rows[name].append(output.reshape(-1, output.shape[-1])[drawn])
            else:
                rows.pop(name, None)
    return {name: np.concatenate(parts) for name, parts in rows.items() if len(parts) == len(batches)}


def _rewritten(
    model: Any, name: str, nodes: Sequence[Any], weights: Sequence[Floats], product: Product
) -> tuple[list[Any], list[list[Any]]]:
    """Return the nodes before the products, and the nodes of each product."""
    make = onnx.helper.make_node

    def constant(label: str, value: NDArray[Any]) -> str:
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, f"{name}.{label}"))
        return f"{name}.{label}"

    grid = [
        constant("step", np.array(product.step, dtype=np.float32)),
        constant("zero", np.array(product.zero, dtype=np.uint8)),
    ]
    factor = constant("factor", (1 / product.scale).astype(np.float32))
    before = [
        make("Mul", [name, factor], [f"{name}.scaled"]),
        make("QuantizeLinear", [f"{name}.scaled", *grid], [f"{name}.codes"]),
        make("DequantizeLinear", [f"{name}.codes", *grid], [f"{name}.rounded"]),
        make("Gather", [name, constant("kept", product.kept.astype(np.int64))], [f"{name}.few"], axis=-1),
    ]
    each = []
    for number, (node, weight) in enumerate(zip(nodes, weights, strict=True)):
        own = f"{name}.{number}"
        codes = constant(f"{number}.weights", product.weights[number])
        steps = constant(f"{number}.steps", product.steps[number])
        zeros = constant(f"{number}.zeros", np.zeros(len(product.steps[number]), dtype=np.int8))
        few = constant(f"{number}.few", np.ascontiguousarray(weight[product.kept]))
        shift = constant(f"{number}.shift", product.shifts[number])
        each.append(
            [
                make("DequantizeLinear", [codes, steps, zeros], [f"{own}.dequantized"], axis=1),
                make("MatMul", [f"{name}.rounded", f"{own}.dequantized"], [f"{own}.most"]),
                make("MatMul", [f"{name}.few", few], [f"{own}.rest"]),
                make("Add", [f"{own}.most", f"{own}.rest"], [f"{own}.sum"]),
                make("Add", [f"{own}.sum", shift], [node.output[0]]),
            ]
        )
    return before, each


def _rounded_tables(model: Any) -> dict[str, list[Any]]:
    """Return the nodes that replace each look-up in a large table by int8 codes with one scale per row."""
    make, numpy_helper = onnx.helper.make_node, onnx.numpy_helper
    tables = {one.name: one for one in model.graph.initializer if len(one.dims) == 2}
    replaced = {}
    for node in model.graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.dims[0] < _LEAST_ROWS:
            continue
        values = numpy_helper.to_array(table)
        steps = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-12) / _LARGEST
        own = f"{node.output[0]}.table"
        parts = {"codes": np.rint(values / steps).astype(np.int8), "steps": steps.astype(np.float32)}
        for label, part in parts.items():
            model.graph.initializer.append(numpy_helper.from_array(part, f"{own}.{label}"))
        replaced[node.name] = [
            make("Gather", [f"{own}.codes", node.input[1]], [f"{own}.rows"], axis=0),
            make("Cast", [f"{own}.rows"], [f"{own}.floats"], to=onnx.TensorProto.FLOAT),
            make("Gather", [f"{own}.steps", node.input[1]], [f"{own}.scales"], axis=0),
            make("Mul", [f"{own}.floats", f"{own}.scales"], [node.output[0]]),
        ]
    return replaced
