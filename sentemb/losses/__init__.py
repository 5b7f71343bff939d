"""The room of losses."""

from __future__ import annotations
