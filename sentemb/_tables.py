"""The table formatter's former place."""

from __future__ import annotations

from sentemb.report.table import ABSENT, GROUP, Table, escape_latex

__all__ = ["ABSENT", "GROUP", "Table", "escape_latex"]
