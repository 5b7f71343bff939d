"""Figures and pages made from finished results; nothing here trains, encodes or scores."""

from __future__ import annotations
