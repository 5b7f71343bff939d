"""Text to vectors: every different text once, cached, on the fastest exact path of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.encoding.encoder import NonFiniteError, Precision, TextEncoder
    from sentemb.encoding.family import encode_together
    from sentemb.encoding.resolve import load_encoder
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "encoder": ["NonFiniteError", "Precision", "TextEncoder"],
            "family": ["encode_together"],
            "resolve": ["load_encoder"],
        },
    )

__all__ = ["NonFiniteError", "Precision", "TextEncoder", "encode_together", "load_encoder"]
