"""A model by name and the options that decide its vectors, so that it can be loaded again elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sentemb.encoding.encoder import Precision, TextEncoder


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """What `sentemb.encoding.load_encoder` loads an encoder by.

    Args:
        model: Folder, word-vector file or hub id.
        pooling: Pooling of a folder or hub id.
        precision: `float32` or `reduced`.
        max_length: Longest input in tokens.

    Example:
        >>> EncoderSpec("static-mini").model
        'static-mini'
    """

    model: str
    pooling: str | None = None
    precision: Precision = "float32"
    max_length: int | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> EncoderSpec:
        """Select the arguments of `load_encoder` that decide the vectors."""
        return cls(**{one.name: arguments[one.name] for one in fields(cls) if one.name in arguments})

    def seen_from(self, folder: Path) -> EncoderSpec:
        """Return the same model by its path from a folder, if it has one: the two can be moved together."""
        path = Path(self.model).expanduser()
        if not path.exists():
            return self
        return replace(self, model=os.path.relpath(path.resolve(), folder.resolve()))

    def located(self, folder: Path = Path()) -> EncoderSpec:
        """Return the same model by its absolute path, if it is in a folder or the working folder."""
        path = folder / Path(self.model).expanduser()
        return replace(self, model=str(path.resolve())) if path.exists() else self

    def load(
        self,
        *,
        device: str | None = None,
        cache_dir: str | Path | None = None,
        data_dir: str | Path | None = None,
    ) -> TextEncoder:
        """Load the encoder; the arguments are those of `load_encoder`.

        Raises:
            InputError: There is no such model, or an option does not fit it.
        """
        from sentemb.encoding.resolve import load_encoder

        return load_encoder(
            self.model,
            pooling=self.pooling,  # type: ignore[arg-type]  # load_encoder refuses what is no pooling
            precision=self.precision,
            max_length=self.max_length,
            device=device,
            cache_dir=cache_dir,
            data_dir=data_dir,
        )
