"""One way in for everything that uses a model without training it."""

from __future__ import annotations

from pathlib import Path

from sentence_transformers import SentenceTransformer

from sentemb.modules.encoder import build_encoder
from sentemb.modules.poolings import Poolings


def load(
    name_or_path: str | Path,
    *,
    pooling: Poolings | None = None,
    max_length: int | None = None,
    device: str | None = None,
    revision: str | None = None,
) -> SentenceTransformer:
    """Load a model by the name of a bundled one, by its folder or by its hub id.

    A folder of that name comes first, then the bundled models, then the hub; the first two need no network.

    Args:
        name_or_path: The name, the folder or the hub id.
        pooling: For a raw transformer, which has none of its own; see `build_encoder`.
        max_length: Longest input in tokens; None keeps the model's own limit.
        device: Where to put it; None lets sentence-transformers choose.
        revision: Branch, tag or commit of a hub id.

    Returns:
        The model. No code from its folder is run.

    Raises:
        InputError: There is no such model, it cannot be read, or pooling or length do not fit it.

    Example:
        >>> model = sentemb.load("bert-mini", pooling="mean")  # doctest: +SKIP
    """
    return build_encoder(
        name_or_path, pooling=pooling, max_length=max_length, device=device, revision=revision
    )
