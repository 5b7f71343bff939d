"""Experiments: methods × data sets × settings × seeds as data, run once, resumed, and reported as tables."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
