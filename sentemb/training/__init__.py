"""The room of training."""

from __future__ import annotations
