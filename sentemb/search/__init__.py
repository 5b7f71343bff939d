"""Semantic search: documents, their vectors in a faiss index, and how well it finds."""

from __future__ import annotations

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
