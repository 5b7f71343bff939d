"""Predictions and gold values in few bytes.

Real numbers become 16-bit codes (32-bit ones in small sets) between the least and the greatest of them.
Different numbers keep different codes in the same order, so ranks, and with them Spearman's correlation, stay
exactly what they were; values are off by some 65,536ths of their range, and Pearson's correlation by less
than `PEARSON_WITHIN`. What is kept beside the predictions, such as the probabilities of classes, is rounded
to 8 bits. Class numbers take the smallest integer type. Gold values are kept exactly, each unique one once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = dict[str, Array]

PEARSON_WITHIN = 1e-4
"""How far compact predictions may move Pearson's correlation, as a fraction; 3e-6 is the most seen."""

_RANGE = ":range"
_FEW = 1024  # up to so many different values there is room for codes of 32 bits


def pack(arrays: Mapping[str, Array]) -> Tensors:
    """Compact tensors of predictions."""
    tensors: Tensors = {}
    for name, array in arrays.items():
        if array.dtype.kind in "iub":
            tensors[name] = array.astype(_smallest(array))
        else:
            encode = _rounded if ":" in name else _codes
            tensors[name], tensors[name + _RANGE] = encode(np.asarray(array, dtype=np.float64))
    return tensors


def unpack(tensors: Mapping[str, Array]) -> Tensors:
    """The predictions: float64, or int64 where they are integers."""
    arrays: Tensors = {}
    for name, tensor in tensors.items():
        if name.endswith(_RANGE):
            continue
        if name + _RANGE not in tensors:
            arrays[name] = tensor.astype(np.int64)
            continue
        low, high = tensors[name + _RANGE]
        arrays[name] = low + tensor.astype(np.float64) * ((high - low) / np.iinfo(tensor.dtype).max)
    return arrays


def pack_gold(gold: Array) -> Tensors:
    """Gold values as their unique values and the place of each item's among them."""
    values, places = np.unique(gold, return_inverse=True)
    return {"values": values, "places": places.reshape(gold.shape).astype(_smallest(places))}


def unpack_gold(tensors: Mapping[str, Array]) -> Array:
    """The gold values, as they were."""
    return np.asarray(tensors["values"][tensors["places"]])


def _codes(array: Array) -> tuple[Array, Array]:
    values, places = np.unique(array, return_inverse=True)
    kind = np.uint16 if _FEW < len(values) <= np.iinfo(np.uint16).max + 1 else np.uint32
    low, high, top = values[0], values[-1], np.iinfo(kind).max
    codes = np.rint((values - low) * (top / (high - low or 1.0))).astype(np.int64)
    steps = np.arange(len(codes))
    # Crowded values move to the nearest free codes: up first, and back down at the upper end.
    codes = np.maximum.accumulate(codes - steps) + steps
    codes = np.minimum(codes, top - steps[::-1])
    return codes[places].reshape(array.shape).astype(kind), np.array([low, high])


def _rounded(array: Array) -> tuple[Array, Array]:
    low, high = array.min(), array.max()
    return np.rint((array - low) * (255 / (high - low or 1.0))).astype(np.uint8), np.array([low, high])


def _smallest(array: Array) -> np.dtype[Any]:
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    return np.min_scalar_type(high if low >= 0 else min(low, -high - 1))
