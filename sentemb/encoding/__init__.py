"""The room of encoding."""

from __future__ import annotations
