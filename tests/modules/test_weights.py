"""Weights that a checkpoint lacks or has in excess: harmless ones are ignored, others raise errors."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.modules import load

MODEL_TYPES = (
    "albert bert camembert deberta deberta-v2 distilbert electra modernbert mpnet roberta xlm-roberta".split()
)


@pytest.fixture
def reports(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Capture the log of transformers, which does not propagate to the root logger."""
    upstream = logging.getLogger("transformers")
    upstream.addHandler(caplog.handler)
    yield caplog
    upstream.removeHandler(caplog.handler)


def rewrite(source: Path, folder: Path, **changes: torch.Tensor | None) -> Path:
    """Copy a model folder with weights added, or removed if None; write dots in names as `__`."""
    shutil.copytree(source, folder)
    weights = load_file(folder / "model.safetensors")
    for name, value in changes.items():
        weights.pop(name.replace("__", "."), None)
        if value is not None:
            weights[name.replace("__", ".")] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_head_of_pretraining_and_absent_pooler_are_no_news(
    tiny_bert: Path, tmp_path: Path, model_type: str, reports: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    config = AutoConfig.for_model(
        model_type,
        vocab_size=40,
        pad_token_id=0,
        **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    )
    AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    load(tmp_path, pooling="mean", device="cpu")
    assert "LOAD REPORT" not in reports.text


def test_other_spare_weights_are_still_reported(
    tiny_bert: Path, tmp_path: Path, reports: pytest.LogCaptureFixture
) -> None:
    spare = {"classifier__weight": torch.ones(2, 16), "cls__predictions__bias": torch.ones(40)}
    load(rewrite(tiny_bert, tmp_path / "model", **spare), pooling="cls", device="cpu")
    assert "classifier.weight" in reports.text
    assert "cls.predictions" not in reports.text


@pytest.mark.parametrize("weight", ["embeddings.LayerNorm.bias", "encoder.layer.1.output.dense.weight"])
def test_a_missing_weight_is_refused(tiny_bert: Path, tmp_path: Path, weight: str) -> None:
    folder = rewrite(tiny_bert, tmp_path / "model", **{weight.replace(".", "__"): None})
    with pytest.raises(InputError, match=rf"model lacks 1 of the weights .* such as {weight}; save"):
        load(folder, pooling="cls")


def test_a_missing_layer_of_a_saved_encoder_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    load(tiny_bert, pooling="cls", device="cpu").save(str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    for pooling in (None, "mean"):
        with pytest.raises(InputError, match=r"lacks 16 of the weights .* such as encoder.layer.3"):
            load(tmp_path, pooling=pooling)


def test_the_pooler_is_missed_where_it_makes_the_sentence_embedding(tiny_bert: Path, tmp_path: Path) -> None:
    folder = rewrite(
        tiny_bert, tmp_path / "sup-simcse-tiny", pooler__dense__weight=None, pooler__dense__bias=None
    )
    load(folder, pooling="cls", device="cpu")
    with pytest.raises(InputError, match=r"lacks 2 of the weights .* such as pooler.dense.bias"):
        load(folder)


def test_an_absent_pooler_does_not_make_every_load_another_model(tiny_bert: Path, tmp_path: Path) -> None:
    folder = rewrite(tiny_bert, tmp_path / "model", pooler__dense__weight=None, pooler__dense__bias=None)
    first, second = (load_encoder(load(folder, pooling="mean", device="cpu")).fingerprint for _ in range(2))
    assert first == second
