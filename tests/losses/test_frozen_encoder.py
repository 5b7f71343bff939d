"""The frozen encoder of every architecture, its fingerprint, and the distance of trained weights from it."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from sentemb.losses.self_guided import FrozenEncoder, embeddings_module, fingerprint, squared_distance
from sentemb.losses.views import pooling_names, unwrap
from tests.losses import loops

_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
}
MODELS = {
    "bert": lambda: BertModel(BertConfig(**_SIZES)),
    "roberta": lambda: RobertaModel(RobertaConfig(**_SIZES)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**_SIZES)),
    "electra": lambda: ElectraModel(ElectraConfig(**_SIZES, embedding_size=16)),
    "albert": lambda: AlbertModel(AlbertConfig(**_SIZES, embedding_size=16)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
    ),
}


@pytest.mark.parametrize("architecture", sorted(MODELS))
def test_embeddings_are_found_and_views_do_not_depend_on_padding(architecture: str) -> None:
    torch.manual_seed(0)
    model = MODELS[architecture]().double()
    module = embeddings_module(model)
    assert any(isinstance(child, nn.LayerNorm) for child in module.modules())
    names = {name for name, _ in module.named_parameters()}
    assert {"word_embeddings.weight", "position_embeddings.weight"} <= names
    ids = {id(p) for p in module.parameters()}
    outside = [name for name, p in model.named_parameters() if id(p) not in ids]
    assert outside
    assert not any("word_embeddings" in name or "position_embeddings" in name for name in outside)
    encoder = FrozenEncoder(model)
    tokens = torch.randint(5, 50, (3, 6))
    features = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "modality": "text"}
    views = encoder(features)
    assert views.shape == (3, 3, 16)
    filler = torch.full((3, 4), int(encoder.transformer.config.pad_token_id or 0))
    padded = {
        "input_ids": torch.cat([tokens, filler], dim=1),
        "attention_mask": torch.cat([torch.ones_like(tokens), torch.zeros(3, 4, dtype=torch.long)], dim=1),
    }
    torch.testing.assert_close(encoder(padded), views)


def test_fingerprint_follows_every_weight_but_those_of_a_pooler_drawn_at_random() -> None:
    model = MODELS["bert"]()
    first = fingerprint(model)
    with torch.no_grad():
        model.pooler.dense.weight.normal_()
    assert torch.equal(fingerprint(model), first)
    with torch.no_grad():
        model.embeddings.LayerNorm.bias[3] += 1e-7
    assert not torch.equal(fingerprint(model), first)
    assert not torch.equal(fingerprint(model.bfloat16()), first)


def test_wrappers_are_looked_through(tiny_encoder: SentenceTransformer) -> None:
    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

    assert unwrap(Wrapper(torch.compile(tiny_encoder))) is tiny_encoder
    assert unwrap(tiny_encoder) is tiny_encoder
    assert pooling_names(Wrapper(tiny_encoder)) == ("cls",)


def pairs(dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    shapes = [(3, 4), (5,), (), (2, 3, 2)]
    parameters = [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    return parameters, [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_squared_distance_and_its_gradient_equal_autograd(dtype: torch.dtype, tolerance: float) -> None:
    parameters, references = pairs(dtype)
    expected = sum(((p - q) ** 2).sum() for p, q in zip(parameters, references, strict=True))
    value = squared_distance(parameters, references)
    assert value.dtype == dtype
    loops.assert_equal(0.3 * value, 0.3 * expected, parameters, tolerance=tolerance)
    assert squared_distance([], []).item() == 0


def test_value_and_gradient_are_exactly_zero_at_the_reference() -> None:
    parameters, _ = pairs(torch.float32)
    value = squared_distance(parameters, [p.detach().clone() for p in parameters])
    value.backward()
    assert value.item() == 0
    assert all(p.grad.eq(0).all() for p in parameters)


def test_gradients_accumulate_with_those_of_another_term() -> None:
    parameters, references = pairs()
    for _ in range(2):
        (squared_distance(parameters, references) * 512 + sum(p.sin().sum() for p in parameters)).backward()
    for p, q in zip(parameters, references, strict=True):
        torch.testing.assert_close(p.grad, 2 * (512 * 2 * (p - q) + p.cos()).detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_parameters_are_summed_in_float32(dtype: torch.dtype) -> None:
    parameter = torch.full((70_000,), 1.0, dtype=dtype, requires_grad=True)
    value = squared_distance([parameter], [torch.zeros(70_000, dtype=dtype)])
    assert value.item() == 70_000  # beyond the largest float16
    value.backward()
    assert parameter.grad.dtype == dtype
    assert parameter.grad.eq(2).all()


def test_no_difference_of_the_size_of_the_model_is_kept_for_the_backward_pass() -> None:
    kept: list[int] = []
    parameter, reference = torch.randn(1000, requires_grad=True), torch.randn(1000)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        squared_distance([parameter], [reference])
    assert kept == [parameter.data_ptr()]
