"""Text to vectors: every different text once, cached, on the fastest exact path of this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.encoding.encoder import Precision, TextEncoder
    from sentemb.encoding.resolve import load_encoder

__all__ = ["Precision", "TextEncoder", "load_encoder"]

_HOMES = {
    "Precision": "sentemb.encoding.encoder",
    "TextEncoder": "sentemb.encoding.encoder",
    "load_encoder": "sentemb.encoding.resolve",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
