"""The configuration of a classifier's training."""

from __future__ import annotations

from sentemb.training.config import ClassifierConfig, Metric

__all__ = ["ClassifierConfig", "Metric"]
