"""The room of evaluation."""

from __future__ import annotations
