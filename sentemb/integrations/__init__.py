"""Adapters for other frameworks, one module each; importing one needs its framework."""

from __future__ import annotations

__all__: list[str] = []
