"""Functions as encoders: what they give is checked, and the text at fault is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sentemb.encoding import load_encoder
from sentemb.errors import InputError


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), 1.0] for text in texts])


def test_different_texts_reach_the_function_once() -> None:
    asked: list[list[str]] = []

    def function(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return lengths(texts)

    vectors = load_encoder(function).encode(["bb", "a", "bb", ""])
    assert asked == [["bb", "a", ""]]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[2, 1], [1, 1], [2, 1], [0, 1]]


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.ndarray.tolist,
        torch.tensor,
        lambda array: torch.tensor(array, requires_grad=True),
        lambda array: torch.tensor(array).bfloat16(),
    ],
)
def test_every_kind_of_array(convert: Any) -> None:
    encoder = load_encoder(lambda texts: convert(lengths(texts)))
    assert encoder.encode(["abc"]).tolist() == [[3.0, 1.0]]
    assert encoder.dimension == 2


def test_dimension_without_texts() -> None:
    encoder = load_encoder(lengths)
    assert encoder.encode([]).shape == (0, 2)
    assert encoder.name == "lengths"
    assert encoder.fingerprint.endswith(".lengths")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2), r"shape \(2,\) for 2 texts"),
        (np.zeros((3, 4)), r"shape \(3, 4\) for 2 texts"),
        (np.zeros((2, 0)), r"shape \(2, 0\)"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
        ([[1.0], [1.0, 2.0]], "is not an array of numbers"),
        ([["x"], ["y"]], "is not an array of numbers"),
        (None, "for 2 texts|is not an array of numbers"),
        (np.array([[1.0], [np.nan]]), r"NaN or infinity for text 1 \('b'\), 1 in total"),
        (np.array([[np.inf], [np.nan]]), r"NaN or infinity for text 0 \('a'\), 2 in total"),
        (np.array([[1e300], [1.0]]), "NaN or infinity for text 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_wrong_results_are_named(result: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(lambda texts: result).encode(["a", "b"])


def test_changing_dimension_is_named() -> None:
    sizes = iter([2, 3])
    encoder = load_encoder(lambda texts: np.zeros((len(texts), next(sizes))))
    encoder.encode(["a"])
    with pytest.raises(InputError, match="vectors of 3 dimensions, after 2 before"):
        encoder.encode(["a"])


def test_errors_of_the_function_are_its_own() -> None:
    def broken(texts: list[str]) -> np.ndarray:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load_encoder(broken).encode(["a"])
