"""Modules of a SentenceTransformer: poolings, normalising flows, classification heads; and `load`."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
