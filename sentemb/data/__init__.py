"""Data sets and texts: the catalogue, the readers, the hub."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.data.catalogue import Entry, entries, get
    from sentemb.data.columns import load_columns
    from sentemb.data.provenance import describe_source
    from sentemb.data.sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs, read_scored_pairs
    from sentemb.data.text import Record, read_records

_HOMES = {
    "Entry": "catalogue",
    "Record": "text",
    "STS_SETS": "sts",
    "ScoredPairs": "sts",
    "Subset": "sts",
    "describe_source": "provenance",
    "entries": "catalogue",
    "get": "catalogue",
    "load_columns": "columns",
    "load_scored_pairs": "sts",
    "read_records": "text",
    "read_scored_pairs": "sts",
}

__all__ = [
    "STS_SETS",
    "Entry",
    "Record",
    "ScoredPairs",
    "Subset",
    "describe_source",
    "entries",
    "get",
    "load_columns",
    "load_scored_pairs",
    "read_records",
    "read_scored_pairs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
