"""Smaller and faster variants of an encoder, each with its quality drop; distillation."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
