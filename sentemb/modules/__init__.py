"""How a SentenceTransformer is put together: poolings as native modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.modules.encoder import build_encoder
    from sentemb.modules.poolings import Poolings

__all__ = ["Poolings", "build_encoder"]


def __getattr__(name: str) -> Any:
    if name == "build_encoder":
        from sentemb.modules.encoder import build_encoder

        return build_encoder
    if name == "Poolings":
        from sentemb.modules.poolings import Poolings

        return Poolings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
