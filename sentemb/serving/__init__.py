"""Vectors and search over HTTP; importing its modules needs `pip install 'sentemb[serve]'`."""

from __future__ import annotations

__all__: list[str] = []
