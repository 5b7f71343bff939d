"""The room of data."""

from __future__ import annotations
