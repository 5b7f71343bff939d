"""Every form of a model becomes an encoder, and options that do not fit it are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.encoding import load_encoder
from sentemb.errors import InputError


def zeros(texts: list[str]) -> np.ndarray:
    return np.zeros((len(texts), 2))


def test_folder_with_options(tiny_bert: Path) -> None:
    encoder = load_encoder(tiny_bert, pooling="mean", max_length=8, device="cpu")
    assert encoder.name == f"{tiny_bert.name}-mean"
    assert encoder.describe()["max_length"] == 8
    expected = load_encoder(str(tiny_bert), pooling="mean", max_length=8).encode(["the cat " * 20])
    np.testing.assert_array_equal(encoder.encode(["the cat " * 20]), expected)


def test_live_model_is_used_itself(tiny_encoder: SentenceTransformer) -> None:
    encoder: Any = load_encoder(tiny_encoder)
    assert encoder.model is tiny_encoder


def test_encoder_is_handed_through_unread() -> None:
    class Own:
        name, dimension = "own", 2

        @property
        def fingerprint(self) -> str:
            raise AssertionError("reading it may take long")

        def encode(self, texts: list[str], *, progress: bool = False) -> np.ndarray:
            return zeros(texts).astype(np.float32)

        def describe(self) -> dict[str, Any]:
            return {}

    own = Own()
    assert load_encoder(own) is own


@pytest.mark.parametrize("option", [{"pooling": "cls"}, {"max_length": 8}, {"device": "cpu"}])
def test_options_of_folders_are_refused_elsewhere(
    tiny_encoder: SentenceTransformer, option: dict[str, Any]
) -> None:
    for model in (tiny_encoder, zeros, "glove.txt"):
        with pytest.raises(InputError, match=f"{next(iter(option))} does not apply to"):
            load_encoder(model, **option)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (7, {}, "cannot encode with int"),
        ("/no/such/folder", {}, "no such model folder"),
        ("no/where", {"pooling": "cls"}, "hub is not reachable"),
        (zeros, {"precision": "int4"}, "unknown precision 'int4'; choose one of float32, reduced"),
    ],
)
def test_user_errors_are_one_line(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(model, **options)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("runs/mine", "mine"), ("runs/mine/model", "mine"), ("runs/mine/seed-12", "mine-seed-12")],
)
def test_a_folder_with_a_common_name_goes_by_its_parent(
    folder: str, name: str, tmp_path: Path, tiny_encoder: SentenceTransformer
) -> None:
    tiny_encoder.save(str(tmp_path / folder))
    assert load_encoder(tmp_path / folder, device="cpu").name == name


@pytest.mark.parametrize("folder", ["mine", "mine/model"])
def test_a_model_in_memory_is_called_by_the_folder_that_it_came_from(
    tiny_encoder: SentenceTransformer, tmp_path: Path, folder: str
) -> None:
    tiny_encoder.save(str(tmp_path / folder), create_model_card=False)
    assert load_encoder(SentenceTransformer(str(tmp_path / folder), device="cpu")).name == "mine"


def test_a_model_from_nowhere_is_called_by_its_class(tiny_encoder: SentenceTransformer) -> None:
    tiny_encoder[0].auto_model.config._name_or_path = tiny_encoder[0].auto_model.name_or_path = ""
    assert load_encoder(tiny_encoder).name == "SentenceTransformer"
