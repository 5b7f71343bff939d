"""Retrieval: encoders, keyword search, hybrids and saved runs on queries with qrels."""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
