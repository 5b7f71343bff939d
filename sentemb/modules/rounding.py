"""Vectors rounded to a byte or a bit a dimension, as an index stores them, at the end of an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sentemb._compat import Module
from sentemb.errors import InputError
from sentemb.modules.head_files import CONFIG_FILE, load_weights, read_config, save_weights, write_config

Rounding = Literal["int8", "binary"]
"""`int8`: 255 levels for each dimension, over the range that it has on some text. `binary`: its sign."""

_VERSION = 1
_WEIGHTS_FILE = "model.safetensors"
_DAMAGED = "save or download the model again"
_LARGEST = 127


class RoundedVectors(Module):
    """Rounds sentence vectors to what fits a byte or a bit a dimension, and returns them as float32.

    Cosines of these are those of the stored codes, so any evaluation shows what the codes cost. A saved
    folder is read by `sentemb.load` only.

    Args:
        dimension: Length of a vector.
        kind: See `Rounding`.

    Raises:
        InputError: There is no such kind.
    """

    config_keys = ["dimension", "kind"]  # noqa: RUF012
    step: Tensor

    def __init__(self, dimension: int, kind: Rounding) -> None:
        super().__init__()
        if kind not in get_args(Rounding):
            raise InputError(f"unknown rounding {kind!r}", f"choose one of {', '.join(get_args(Rounding))}")
        self.dimension, self.kind = dimension, kind
        self.register_buffer("step", torch.ones(dimension))

    @property
    def bytes(self) -> int:
        """Bytes of a vector's codes."""
        return self.dimension if self.kind == "int8" else -(-self.dimension // 8)

    def fit(self, vectors: Tensor) -> RoundedVectors:
        """Take the range of each dimension from vectors (n, dimension); larger values are cut off."""
        self.step = (vectors.abs().amax(dim=0) / _LARGEST).clamp(min=1e-12)
        return self

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Round `sentence_embedding` (batch, dimension)."""
        vectors = features["sentence_embedding"]
        if self.kind == "int8":
            rounded = (vectors / self.step).round().clamp(-_LARGEST, _LARGEST) * self.step
        else:
            rounded = torch.where(vectors > 0, 1.0, -1.0).to(vectors.dtype)
        features["sentence_embedding"] = rounded
        return features

    def get_embedding_dimension(self) -> int:
        """Length of a vector, which rounding does not change."""
        return self.dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write configuration and ranges (safetensors) into the module's folder."""
        folder = Path(output_path)
        write_config(
            folder / CONFIG_FILE, {"loaded_by": "sentemb.load", **self.get_config_dict()}, version=_VERSION
        )
        save_weights(self, folder / _WEIGHTS_FILE)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **kwargs: Any,
    ) -> RoundedVectors:
        """Read what `save` wrote; the arguments are those of sentence-transformers' modules."""
        folder = cls.load_dir_path(
            model_name_or_path, subfolder, token, cache_folder, revision, local_files_only
        )
        config_file = Path(folder or Path(model_name_or_path, subfolder), CONFIG_FILE)
        config = read_config(config_file, version=_VERSION, hint=_DAMAGED)
        if missing := [key for key in cls.config_keys if key not in config]:
            raise InputError(f"{config_file} lacks {', '.join(missing)}", _DAMAGED)
        module = cls(**{key: config[key] for key in cls.config_keys})
        load_weights(module, config_file.with_name(_WEIGHTS_FILE), hint=_DAMAGED)
        return module
