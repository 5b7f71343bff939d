"""The model in the box: small, real words in its vocabulary, loadable by name and by path."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.modules import build_encoder
from sentemb.modules.bundled import bundled_folder, bundled_names


def test_bert_mini_is_small_and_complete() -> None:
    folder = bundled_folder("bert-mini")
    assert folder is not None
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20 * 2**20
    assert (folder / "README.md").is_file()


def test_it_loads_by_name_and_computes_in_float32() -> None:
    model = build_encoder("bert-mini", pooling="cls", device="cpu")
    assert model.dtype == torch.float32
    assert model.max_seq_length == 96
    assert model.tokenizer.tokenize("How do I sort a dictionary?")[:4] == ["how", "do", "i", "sort"]


def test_plain_sentence_transformers_loads_it_by_path() -> None:
    model = SentenceTransformer(str(bundled_folder("bert-mini")), device="cpu")
    same, other = model.encode(["the cat sat", "The cat sat"]), model.encode(["stock prices fell"])
    assert (same[0] == same[1]).all()
    assert (same[0] != other[0]).any()


def test_a_folder_of_the_same_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bert-mini").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no model folder"):
        build_encoder("bert-mini", pooling="cls")


def test_other_names_are_not_bundled() -> None:
    assert bundled_folder("bert-large") is None
    assert bundled_folder("") is None
    assert "bert-mini" in bundled_names()
