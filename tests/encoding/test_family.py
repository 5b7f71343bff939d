"""Models over one transformer are encoded in one pass, and each as it would be alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb.encoding import encode_together, load_encoder
from sentemb.errors import InputError
from sentemb.modules import load
from tests.conftest import build_tiny_bert

TEXTS = ["the cat sat", "a dog ran in the park", "the man", "the cat sat", "children ran with the dog " * 6]
POOLINGS = ("cls", "max", "first-last", "wk")


def test_each_model_gives_what_it_gives_alone_from_one_pass(tmp_path: Path) -> None:
    base = build_tiny_bert(tmp_path / "bert", layers=4)
    models = {pooling: load(base, pooling=pooling) for pooling in POOLINGS}
    alone = {name: load_encoder(model) for name, model in models.items()}
    calls: list[int] = []
    models["cls"][0].model.embeddings.register_forward_hook(
        lambda module, inputs, output: calls.append(output.shape[0])
    )
    encoders = encode_together(models)
    assert [encoder.name for encoder in encoders] == list(POOLINGS)
    together = [encoder.encode(TEXTS) for encoder in encoders]
    assert sum(calls) == 4  # the different texts
    for encoder, vectors in zip(encoders, together, strict=True):
        expected = alone[encoder.name]
        assert encoder.fingerprint == expected.fingerprint and encoder.dimension == expected.dimension
        np.testing.assert_allclose(vectors, expected.encode(TEXTS), rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoders[1].encode(TEXTS[:2]), together[1][:2], rtol=0, atol=1e-6)
    assert not models["cls"][0].model.config.output_hidden_states


def test_another_transformer_or_length_is_refused(tmp_path: Path, tiny_bert: Path) -> None:
    first, other = load(tiny_bert, pooling="cls"), load(tiny_bert, pooling="mean")
    other.max_seq_length = 8
    with pytest.raises(InputError, match=r"short differs from long in"):
        encode_together({"long": first, "short": other})
    changed = load(tiny_bert, pooling="mean")
    with torch.no_grad():
        next(changed[0].parameters()).add_(1)
    with pytest.raises(InputError, match="changed differs from first in its transformer"):
        encode_together({"first": first, "changed": changed})
    with pytest.raises(InputError, match="the list of models is empty"):
        encode_together({})
