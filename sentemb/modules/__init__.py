"""How a SentenceTransformer is put together: poolings as native modules, and heads that classify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.modules.encoder import build_encoder
    from sentemb.modules.heads import ClassificationHead, LinearHead, build_head
    from sentemb.modules.poolings import Poolings

__all__ = ["ClassificationHead", "LinearHead", "Poolings", "build_encoder", "build_head"]

_HOMES = {
    "ClassificationHead": "sentemb.modules.heads",
    "LinearHead": "sentemb.modules.heads",
    "Poolings": "sentemb.modules.poolings",
    "build_encoder": "sentemb.modules.encoder",
    "build_head": "sentemb.modules.heads",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
