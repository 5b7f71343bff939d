"""Tests of sentemb.pretraining."""

from __future__ import annotations
