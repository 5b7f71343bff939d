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

from sentemb.losses.self_guided import FrozenEncoder, embeddings_module, fingerprint
from sentemb.losses.views import pooling_names, unwrap

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
def test_embeddings_are_found_with_their_norm_in_every_architecture(architecture: str) -> None:
    model = MODELS[architecture]()
    module = embeddings_module(model)
    assert any(isinstance(child, nn.LayerNorm) for child in module.modules())
    names = {name for name, _ in module.named_parameters()}
    assert {"word_embeddings.weight", "position_embeddings.weight"} <= names
    ids = {id(p) for p in module.parameters()}
    outside = [name for name, p in model.named_parameters() if id(p) not in ids]
    assert outside
    assert not any("word_embeddings" in name or "position_embeddings" in name for name in outside)


@pytest.mark.parametrize("architecture", sorted(MODELS))
def test_views_of_every_architecture_do_not_depend_on_padding(architecture: str) -> None:
    torch.manual_seed(0)
    encoder = FrozenEncoder(MODELS[architecture]().double())
    ids = torch.randint(5, 50, (3, 6))
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "modality": "text"}
    views = encoder(features)
    assert views.shape == (3, 3, 16)
    filler = torch.full((3, 4), int(encoder.transformer.config.pad_token_id or 0))
    padded = {
        "input_ids": torch.cat([ids, filler], dim=1),
        "attention_mask": torch.cat([torch.ones_like(ids), torch.zeros(3, 4, dtype=torch.long)], dim=1),
    }
    torch.testing.assert_close(encoder(padded), views)


def test_fingerprint_follows_every_weight() -> None:
    model = MODELS["bert"]()
    first = fingerprint(model)
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


def test_fingerprint_leaves_out_a_pooler_drawn_at_random() -> None:
    model = MODELS["bert"]()
    first = fingerprint(model)
    with torch.no_grad():
        model.pooler.dense.weight.normal_()
    assert torch.equal(fingerprint(model), first)
