"""BERT and its relatives as one flat forward pass, for encoding on a CPU.

The pass of transformers through the six layers of MiniLM is 3 milliseconds of Python, a third of the time of
a short query, and in bfloat16 each linear layer converts its inputs. Here a layer is ten operations:
query, key and value are one product, GELU is part of another, and attention reads what the product before it
wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from sentemb.encoding.linear import (
    LinearKernel,
    Shape,
    SteadyLinear,
    applies_gelu,
    is_replaceable,
    padded_rows,
    shape_of,
    try_shapes,
)


class Layout(NamedTuple):
    """Paths of the parts of a layer in a family of networks."""

    layers: str
    query: str
    key: str
    value: str
    merge: str  # of the heads
    merge_norm: str
    up: str
    activation: str
    down: str
    down_norm: str

    def parts(self, layer: nn.Module) -> dict[str, nn.Module]:
        """Return the parts of one layer."""
        return {name: attrgetter(path)(layer) for name, path in self._asdict().items() if name != "layers"}


_BERT = Layout(
    layers="encoder.layer",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    merge="attention.output.dense",
    merge_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    activation="intermediate.intermediate_act_fn",
    down="output.dense",
    down_norm="output.LayerNorm",
)
_MPNET = _BERT._replace(
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    merge="attention.attn.o",
    merge_norm="attention.LayerNorm",
)
_DISTILBERT = Layout(
    layers="transformer.layer",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    merge="attention.out_lin",
    merge_norm="sa_layer_norm",
    up="ffn.lin1",
    activation="ffn.activation",
    down="ffn.lin2",
    down_norm="output_layer_norm",
)
_LAYOUTS = {
    "BertModel": _BERT,
    "RobertaModel": _BERT,
    "XLMRobertaModel": _BERT,
    "CamembertModel": _BERT,
    "MPNetModel": _MPNET,
    "DistilBertModel": _DISTILBERT,
}
# With one of these in its configuration, a network computes more than its layers' states.
_OTHER_WAYS = ("is_decoder", "add_cross_attention", "output_hidden_states", "output_attentions")


class FlatLayer(nn.Module):
    """One layer: attention and two products, each added to the states and normalized."""

    def __init__(self, parts: dict[str, Any], kernel: LinearKernel, *, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self._dtype = torch.bfloat16 if kernel == "packed-bfloat16" else torch.float32
        qkv = _join([parts["query"], parts["key"], parts["value"]])
        self.qkv = SteadyLinear(qkv, kernel, keep_dtype=True)
        self.merge = SteadyLinear(parts["merge"], kernel, keep_dtype=True)
        self.merge_norm = parts["merge_norm"]
        fused = applies_gelu(kernel, parts["up"], parts["activation"])
        self.up = SteadyLinear(parts["up"], kernel, gelu=fused, keep_dtype=fused)
        self.activation = nn.Identity() if fused else parts["activation"]
        self.down = SteadyLinear(parts["down"], kernel, keep_dtype=True)
        self.down_norm = parts["down_norm"]

    def forward(self, states: Tensor, texts: int, length: int, bias: Tensor | None) -> Tensor:
        """Apply the layer to states (rows, width), one after another and padded; they are overwritten."""
        rows = texts * length
        qkv = self.qkv(states.to(self._dtype))[:rows].view(texts, length, 3, self._heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (texts, heads, length, width of a head)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        attended = attended.transpose(1, 2).reshape(rows, -1).to(self._dtype)
        states = self.merge_norm(states.add_(self.merge(_pad(attended, len(states)))))
        expanded = self.activation(self.up(states.to(self._dtype)))
        states = self.down_norm(states.add_(self.down(expanded.to(self._dtype))))
        return states


class FlatNetwork(nn.Module):
    """Transformers' own embeddings, and flat layers above them."""

    def __init__(self, network: Any, layout: Layout, kernel: LinearKernel, *, pooled: bool) -> None:
        super().__init__()
        self.config = network.config
        self.embeddings = network.embeddings
        parts = [layout.parts(layer) for layer in attrgetter(layout.layers)(network)]
        try_shapes(kernel, {shape for some in parts for shape in _new_shapes(some, kernel)})
        heads = network.config.num_attention_heads
        self.layers = nn.ModuleList(FlatLayer(some, kernel, heads=heads) for some in parts)
        self.pooler = getattr(network, "pooler", None) if pooled else None
        self._bias_of = getattr(getattr(network, "encoder", None), "compute_position_bias", None)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **features: Any
    ) -> BaseModelOutputWithPooling:
        """Return the states of the last layer, (texts, length, width)."""
        types = features.get("token_type_ids")
        states = self.embeddings(input_ids, **({} if types is None else {"token_type_ids": types}))
        bias = None if self._bias_of is None else self._bias_of(states[:1])  # (1, heads, length, length)
        if attention_mask is not None and not attention_mask.all():
            hidden = attention_mask[:, None, None, :] == 0
            nothing = torch.zeros((), dtype=states.dtype) if bias is None else bias
            bias = nothing.masked_fill(hidden, -torch.inf)
        texts, length, width = states.shape
        rows = texts * length
        states = _pad(states.reshape(rows, width), padded_rows(rows))
        for layer in self.layers:
            states = layer(states, texts, length, bias)
        states = states[:rows].view(texts, length, width)
        pooled = None if self.pooler is None else self.pooler(states)
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)


def _pad(rows: Tensor, count: int) -> Tensor:
    """Return so many rows, the last of them of zeros."""
    return rows if len(rows) == count else nn.functional.pad(rows, (0, 0, 0, count - len(rows)))


def flatten_networks(view: nn.Module, kernel: LinearKernel, *, pooled: bool) -> None:
    """Replace the networks of an inference view by flat ones where their layout is known.

    Args:
        view: An inference view.
        kernel: What computes the linear layers.
        pooled: Whether the output of the network's own pooler is needed.
    """
    for parent in list(view.modules()):
        for name, child in parent.named_children():
            layout = layout_of(child)
            if layout is not None:
                parent._modules[name] = FlatNetwork(child, layout, kernel, pooled=pooled)


def layout_of(network: Any) -> Layout | None:
    """Return the layout of a network, or None if it may compute anything but what transformers' does."""
    kind = type(network)
    layout = _LAYOUTS.get(kind.__name__) if kind.__module__.startswith("transformers.models.") else None
    if layout is None or any(getattr(network.config, name, False) for name in _OTHER_WAYS):
        return None
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    if hooked or getattr(network.config, "position_embedding_type", "absolute") != "absolute":
        return None
    return layout if all(_is_known(layer, layout) for layer in attrgetter(layout.layers)(network)) else None


def _is_known(layer: nn.Module, layout: Layout) -> bool:
    """Return whether a layer consists of the parts of its layout only; an adapter is one more."""
    try:
        parts = layout.parts(layer)
    except AttributeError:  # another module in the place of a part
        return False
    linears: list[Any] = [parts[name] for name in ("query", "key", "value", "merge", "up", "down")]
    norms = [parts["merge_norm"], parts["down_norm"]]
    parameters = {id(weight) for part in (*linears, *norms) for weight in part.parameters()}
    return (
        all(is_replaceable(linear) for linear in linears)
        and len({shape_of(linear) for linear in linears[:4]}) == 1  # no head is missing
        and all(type(norm) is nn.LayerNorm for norm in norms)
        and parameters == {id(weight) for weight in layer.parameters()}
    )


def _new_shapes(parts: dict[str, Any], kernel: LinearKernel) -> Iterator[Shape]:
    """Yield the shapes of the layers of a flat layer that are none of the network's."""
    yield shape_of(parts["query"], copies=3)
    if applies_gelu(kernel, parts["up"], parts["activation"]):
        yield shape_of(parts["up"])._replace(gelu=True)


def _join(linears: list[nn.Linear]) -> nn.Linear:
    """Return one layer that gives the outputs of several, one after another."""
    first, outputs = linears[0], sum(linear.out_features for linear in linears)
    joined = nn.Linear(first.in_features, outputs, bias=first.bias is not None, device="meta")
    joined.weight = nn.Parameter(torch.cat([linear.weight for linear in linears]), requires_grad=False)
    if first.bias is not None:
        joined.bias = nn.Parameter(torch.cat([linear.bias for linear in linears]), requires_grad=False)
    return joined
