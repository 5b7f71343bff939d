"""Tests of sentemb.adaptation."""

from __future__ import annotations
