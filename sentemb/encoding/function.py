"""Any function from texts to vectors as an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sentemb.encoding.encoder import Vectors, check_finite, unique_texts
from sentemb.errors import InputError


class FunctionEncoder:
    """Encodes with the caller's function."""

    def __init__(self, function: Callable[[list[str]], Any], *, name: str | None = None) -> None:
        self._function = function
        self.name = str(name or getattr(function, "__qualname__", type(function).__qualname__))
        self._dimension: int | None = None

    @property
    def fingerprint(self) -> str:
        """The function's address in the code: what it computes cannot be seen."""
        module = getattr(self._function, "__module__", type(self._function).__module__)
        return f"function:{module}.{self.name}"

    @property
    def dimension(self) -> int:
        """Length of a vector; found by encoding the empty string where nothing has been encoded yet."""
        if self._dimension is None:
            self.encode([""])
        assert self._dimension is not None
        return self._dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`. The function shows its own progress, if any."""
        unique, positions = unique_texts(texts)
        if not unique:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = self._checked(self._function(unique), count=len(unique))[positions]
        check_finite(vectors, texts, name=self.name)
        self._dimension = vectors.shape[1]
        return vectors

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return {"encoder": "function", "backend": self.fingerprint, "precision": "unknown"}

    def _checked(self, result: Any, *, count: int) -> Vectors:
        if hasattr(result, "detach"):  # a torch tensor, perhaps on an accelerator
            result = result.detach().float().cpu().numpy()
        try:
            vectors = np.asarray(result, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self.name} returned a {type(result).__name__}, which is not an array of numbers: {error}",
                "return one vector per text, all of the same length",
            ) from error
        if vectors.ndim != 2 or vectors.shape[0] != count or vectors.shape[1] == 0:
            raise InputError(
                f"{self.name} returned an array of shape {vectors.shape} for {count} texts",
                f"return an array of shape ({count}, dimension)",
            )
        if self._dimension is not None and vectors.shape[1] != self._dimension:
            raise InputError(
                f"{self.name} returned vectors of {vectors.shape[1]} dimensions, after {self._dimension} "
                "before",
                "always return vectors of the same length",
            )
        return vectors
