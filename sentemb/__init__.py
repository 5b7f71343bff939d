"""Train, evaluate and serve sentence embeddings on top of sentence-transformers.

What a name needs is imported when the name is used; the names are listed in `__init__.pyi`.
"""

from __future__ import annotations

from lazy_loader import attach_stub

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
