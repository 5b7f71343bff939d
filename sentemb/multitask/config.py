"""The configuration of a training on several tasks."""

from __future__ import annotations

from sentemb.training.config.multitask import LOSS, ContrastSource, MultiTaskConfig

__all__ = ["LOSS", "ContrastSource", "MultiTaskConfig"]
