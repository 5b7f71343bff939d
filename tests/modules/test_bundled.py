"""The bundled models: small, with real words in the vocabulary, loadable by name and by path."""

from __future__ import annotations

from pathlib import Path

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
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 20 * 2**20
    assert (folder / "README.md").is_file()


def test_it_loads_by_name_and_computes_in_float32() -> None:
    model = load("bert-mini", pooling="cls", device="cpu")
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
    with pytest.raises(InputError, match="not a model folder"):
        load("bert-mini", pooling="cls")


def test_other_names_are_not_bundled() -> None:
    assert bundled_folder("bert-large") is None
    assert bundled_folder("") is None
    assert bundled_names() == ("bert-mini", "sg-bert-mini", "static-mini")


def test_sg_bert_mini_is_an_encoder_and_better_than_its_base(shared_data: Path) -> None:
    dev = STSEvaluator(("stsb",), split="dev", data_dir=shared_data)
    base, trained = (
        dev(sentemb.load(name, pooling=pooling, device="cpu"))[dev.primary_metric]
        for name, pooling in (("bert-mini", "mean"), ("sg-bert-mini", None))
    )
    assert base < trained
    assert trained == pytest.approx(0.668, abs=0.002)  # what its card says


def test_sg_bert_mini_is_the_same_without_sentemb() -> None:
    texts = ["A man is playing a guitar.", "Someone makes music."]
    plain = SentenceTransformer(str(bundled_folder("sg-bert-mini")), device="cpu")
    assert plain.dtype == torch.float32
    assert (plain.encode(texts) == sentemb.load("sg-bert-mini", device="cpu").encode(texts)).all()


def test_static_mini_is_a_static_encoder_of_at_most_16_mb_and_the_same_without_sentemb() -> None:
    folder = bundled_folder("static-mini")
    assert folder is not None
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 16e6
    texts = ["Remove a folder and everything in it", "delete a directory tree", "sort a dictionary by value"]
    vectors = sentemb.load("static-mini", device="cpu").encode(texts)
    assert (SentenceTransformer(str(folder), device="cpu").encode(texts) == vectors).all()
    same, other = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert same > other + 0.2
