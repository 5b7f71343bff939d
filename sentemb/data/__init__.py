"""Data sets and texts: the catalogue, the readers, the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.data.catalogue import Entry, entries, get
    from sentemb.data.columns import load_columns
    from sentemb.data.labelled import LabelledTexts, UnlabelledTexts, load_labelled, load_unlabelled
    from sentemb.data.labelled_own import read_labelled
    from sentemb.data.provenance import describe_source
    from sentemb.data.sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs, read_scored_pairs
    from sentemb.data.text import Record, read_records
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "catalogue": ["Entry", "entries", "get"],
            "columns": ["load_columns"],
            "labelled": ["LabelledTexts", "UnlabelledTexts", "load_labelled", "load_unlabelled"],
            "labelled_own": ["read_labelled"],
            "provenance": ["describe_source"],
            "sts": ["STS_SETS", "ScoredPairs", "Subset", "load_scored_pairs", "read_scored_pairs"],
            "text": ["Record", "read_records"],
        },
    )

__all__ = [
    "STS_SETS",
    "Entry",
    "LabelledTexts",
    "Record",
    "ScoredPairs",
    "Subset",
    "UnlabelledTexts",
    "describe_source",
    "entries",
    "get",
    "load_columns",
    "load_labelled",
    "load_scored_pairs",
    "load_unlabelled",
    "read_labelled",
    "read_records",
    "read_scored_pairs",
]
