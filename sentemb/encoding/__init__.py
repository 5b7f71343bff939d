"""Text to vectors: every unique text once, cached, on the fastest exact path of this machine."""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
