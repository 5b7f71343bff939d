"""Train, judge and serve sentence embeddings on top of sentence-transformers."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
