"""Semantic search: documents, their vectors in a faiss index, and how well it finds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.search.documents import Document, read_documents
    from sentemb.search.index import Hit, SearchIndex
    from sentemb.search.manifest import Manifest, Recall
    from sentemb.search.plan import IndexPlan, estimate_bytes, plan_index
    from sentemb.search.source import EncoderSource

# Name to module: faiss and torch are imported when a name that needs them is.
_HOMES = {
    "Document": "documents",
    "EncoderSource": "source",
    "Hit": "index",
    "IndexPlan": "plan",
    "Manifest": "manifest",
    "Recall": "manifest",
    "SearchIndex": "index",
    "estimate_bytes": "plan",
    "plan_index": "plan",
    "read_documents": "documents",
}

__all__ = [
    "Document",
    "EncoderSource",
    "Hit",
    "IndexPlan",
    "Manifest",
    "Recall",
    "SearchIndex",
    "estimate_bytes",
    "plan_index",
    "read_documents",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
