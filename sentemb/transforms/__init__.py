"""Whitening and BERT-flow: fitted on the vectors of a frozen encoder, they become its last module."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
