"""Flat networks compute what transformers' own do, and only networks whose layout is known are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from torch import nn

import sentemb.encoding.linear as linear
from sentemb._compat import packed_linear_dtypes
from sentemb._threads import one_thread
from sentemb.data.bundled_text import bundled_sentences
from sentemb.encoding.bert import FlatNetwork, flatten_networks, layout_of
from sentemb.encoding.linear import LinearKernel
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.encoding.view import inference_view
from sentemb.modules import load

needs_packing = pytest.mark.skipif(not packed_linear_dtypes(), reason="this torch has no oneDNN")
FAMILIES = ["Bert", "Roberta", "XLMRoberta", "Camembert", "MPNet", "DistilBert"]


def make(family: str, width: int = 32, **options: Any) -> Any:
    """Make a network of two layers with random weights, which are not as small as those of a new one."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    if family == "DistilBert":
        names = ("dim", "hidden_dim", "n_layers", "n_heads")
    sizes = dict(zip(names, (width, 2 * width, 2, 4), strict=True))
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(vocab_size=50, pad_token_id=1, **sizes, **options)
    network = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return network


def flat(network: nn.Module, kernel: LinearKernel = "stock", *, pooled: bool = False) -> nn.Module:
    view = nn.Sequential(inference_view(network))
    with torch.inference_mode():
        flatten_networks(view, kernel, pooled=pooled)
    return view[0]


def batch(family: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    ids, mask = torch.randint(2, 50, (3, 9)), torch.ones(3, 9, dtype=torch.long)
    ids[1, 5:], mask[1, 5:] = 1, 0
    types = {"token_type_ids": (torch.arange(9) > 3).long().expand(3, 9)} if family == "Bert" else {}
    return {"input_ids": ids, "attention_mask": mask, **types}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("is_padded", [False, True], ids=["one-length", "padded"])
@torch.inference_mode()
def test_a_flat_network_computes_the_states_of_the_original(family: str, is_padded: bool) -> None:
    network, given = make(family), batch(family)
    if not is_padded:
        given = {name: values[::2] for name, values in given.items()}
    replaced = flat(network)
    assert isinstance(replaced, FlatNetwork) and not isinstance(network, FlatNetwork)
    expected, found = network(**given).last_hidden_state, replaced(**given).last_hidden_state
    real = given["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


@pytest.mark.numeric
@pytest.mark.parametrize("kernel", ["stock", "packed", "packed-bfloat16"])
@pytest.mark.parametrize("family", ["Bert", "MPNet"])
@torch.inference_mode()
def test_a_text_has_the_same_bits_in_any_batch_of_its_length(family: str, kernel: LinearKernel) -> None:
    needed = {"packed": torch.float32, "packed-bfloat16": torch.bfloat16}.get(kernel)
    if needed is not None and needed not in packed_linear_dtypes():
        pytest.skip(f"this machine has no kernel {kernel}")
    replaced = flat(make(family, 128), kernel)
    with one_thread():
        for length in (1, 5, 13, 70):
            ids = torch.randint(2, 50, (37, length), generator=torch.Generator().manual_seed(length))
            together = replaced(ids).last_hidden_state
            for some in (slice(0, 1), slice(7, 8), slice(36, 37), slice(5, 22)):
                assert torch.equal(replaced(ids[some]).last_hidden_state, together[some])


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@torch.inference_mode()
def test_any_activation_is_applied(activation: str) -> None:
    network, given = make("Bert", hidden_act=activation), batch("Bert")
    kernels: list[LinearKernel] = ["stock", "packed"] if packed_linear_dtypes() else ["stock"]
    for kernel in kernels:
        found, expected = flat(network, kernel)(**given), network(**given)
        torch.testing.assert_close(
            found.last_hidden_state[[0, 2]], expected.last_hidden_state[[0, 2]], rtol=1e-4, atol=1e-5
        )


@torch.inference_mode()
def test_pairs_are_scored_with_the_pooler() -> None:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = transformers.BertForSequenceClassification(config).eval()
    view = inference_view(model)
    flatten_networks(view, "stock", pooled=True)
    assert isinstance(view.bert, FlatNetwork) and not isinstance(model.bert, FlatNetwork)
    given = batch("Bert")
    torch.testing.assert_close(view(**given).logits, model(**given).logits, rtol=1e-4, atol=1e-5)


def hooked(network: Any) -> None:
    network.encoder.layer[1].output.register_forward_hook(lambda module, inputs, output: output)


def adapted(network: Any) -> None:
    class Adapted(nn.Linear):
        """A subclass computes something else."""

    network.encoder.layer[0].attention.self.query = Adapted(32, 32)


def with_adapter(network: Any) -> None:
    network.encoder.layer[0].output.adapter = nn.Linear(32, 32)


def without_a_head(network: Any) -> None:
    attention = network.encoder.layer[0].attention
    for name in ("query", "key", "value"):
        setattr(attention.self, name, nn.Linear(32, 24))
    attention.output.dense = nn.Linear(24, 32)


def with_another_part(network: Any) -> None:
    network.encoder.layer[0].attention.self = nn.MultiheadAttention(32, 4)


def with_states(network: Any) -> None:
    network.config.output_hidden_states = True


def in_half(network: Any) -> None:
    network.half()


@pytest.mark.parametrize(
    "change", [hooked, adapted, with_adapter, without_a_head, with_another_part, with_states, in_half]
)
def test_networks_that_compute_something_else_keep_their_own_pass(change: Callable[[Any], None]) -> None:
    network = make("Bert")
    assert layout_of(network) is not None
    change(network)
    assert layout_of(network) is None
    assert not isinstance(flat(network), FlatNetwork)


def test_networks_with_another_layout_keep_their_own_pass() -> None:
    config = transformers.ElectraConfig(
        vocab_size=50, embedding_size=16, hidden_size=32, num_hidden_layers=1, num_attention_heads=4
    )
    own = type("BertModel", (transformers.BertModel,), {})(make("Bert").config)
    for network in (transformers.ElectraModel(config), make("Bert", is_decoder=True), own, nn.Linear(4, 4)):
        assert layout_of(network) is None


@needs_packing
def test_gelu_fused_in_float32_and_attention_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = bundled_sentences()[:20]
    expected = load("bert-mini", pooling="mean").encode(texts)

    def encode(kernel: LinearKernel) -> Any:
        view = inference_view(load("bert-mini", pooling="mean"))
        with torch.inference_mode():
            flatten_networks(view, kernel, pooled=False)
        layers = [part for part in view.modules() if isinstance(part, nn.Identity)]
        return view.encode(texts), len(layers)

    fused, identities = encode("packed")
    monkeypatch.setattr(linear, "_fuses_gelu", lambda kernel, shape: False)
    apart, none = encode("packed")
    assert (identities, none) in {(6, 0), (0, 0)}  # it is fused only with the same bits
    np.testing.assert_array_equal(fused, apart)
    np.testing.assert_allclose(fused, expected, atol=1e-5)
    monkeypatch.undo()
    if torch.bfloat16 in packed_linear_dtypes():
        reduced, identities = encode("packed-bfloat16")
        assert identities == 6
        assert 0 < np.abs(reduced - expected).max() < 0.05


def test_an_encoder_reads_all_layers_through_the_networks_own_pass(
    make_encoder: Callable[..., SentenceTransformer], texts: list[str]
) -> None:
    for pooling, is_flat in (("mean", True), ("cls", True), ("first-last", False)):
        model = load("bert-mini", pooling=pooling)
        encoder = SentenceEncoder(model, name="bert-mini")
        networks = [part for part in encoder._ready_view().modules() if isinstance(part, FlatNetwork)]
        assert bool(networks) == is_flat
        np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), atol=1e-5)
