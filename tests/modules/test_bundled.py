"""The bundled models: small, with real words in the vocabulary, loadable by name and by path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import sentemb
from sentemb.errors import InputError
from sentemb.evaluation import STSEvaluator
from sentemb.modules import load
from sentemb.modules.cards import bundled_folder, bundled_names


@pytest.mark.parametrize("name", bundled_names())
def test_a_model_is_small_and_complete(name: str) -> None:
    folder = bundled_folder(name)
    assert folder is not None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= 16e6 if name == "static-mini" else size < 20 * 2**20
    assert (folder / "README.md").is_file()


def test_a_folder_of_the_same_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bert-mini").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not a model folder"):
        load("bert-mini", pooling="cls")


def test_other_names_are_not_bundled() -> None:
    assert bundled_folder("bert-large") is None
    assert bundled_folder("") is None
    assert bundled_names() == ("bert-mini", "sg-bert-mini", "static-mini")


def test_sg_bert_mini_scores_what_its_card_says(shared_data: Path) -> None:
    dev = STSEvaluator(("stsb",), split="dev", data_dir=shared_data)
    score = dev(sentemb.load("sg-bert-mini", device="cpu"))[dev.primary_metric]
    assert score == pytest.approx(0.668, abs=0.002)


@pytest.mark.parametrize("name", ["sg-bert-mini", "static-mini"])
def test_an_encoder_is_the_same_without_sentemb(name: str) -> None:
    texts = ["Remove a folder and everything in it", "delete a directory tree", "sort a dictionary by value"]
    vectors = sentemb.load(name, device="cpu").encode(texts)
    plain = SentenceTransformer(str(bundled_folder(name)), device="cpu")
    assert plain.dtype == torch.float32
    assert (plain.encode(texts) == vectors).all()
    same, other = (vectors[0] @ vectors[place] / np.linalg.norm(vectors[place]) for place in (1, 2))
    assert same > other
