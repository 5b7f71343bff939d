"""The room of modules."""

from __future__ import annotations
