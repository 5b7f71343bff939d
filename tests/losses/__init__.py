"""Tests of sentemb.losses."""

from __future__ import annotations
