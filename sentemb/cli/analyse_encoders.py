"""What the verbs of `sentemb analyse` that compare encoders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sentemb.errors import InputError

if TYPE_CHECKING:
    from sentemb.encoding import TextEncoder


def load_named(models: Sequence[str], *, pooling: str | None) -> dict[str, TextEncoder]:
    """Load encoders under the names that figures call them by."""
    from sentemb.encoding import load_encoder
    from sentemb.modules.source import find_source

    encoders: dict[str, TextEncoder] = {}
    for model in models:
        own = pooling is None or find_source(model).has_modules
        encoder = load_encoder(model, pooling=None if own else pooling)  # type: ignore[arg-type]
        if encoder.name in encoders:
            raise InputError(
                f"two of the models are called {encoder.name}, which is their name in the figure",
                "name each model once, or rename a folder",
            )
        encoders[encoder.name] = encoder
    return encoders
