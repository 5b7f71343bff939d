"""The room of search."""

from __future__ import annotations
