"""Semantic search: documents, their vectors in a faiss index, and how well it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.search.documents import Document, read_documents
    from sentemb.search.index import Hit, SearchIndex
    from sentemb.search.manifest import Manifest, Recall
    from sentemb.search.negatives import MinedCounts, mine_negatives
    from sentemb.search.plan import IndexPlan, estimate_bytes, plan_index
    from sentemb.search.source import EncoderSource
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "documents": ["Document", "read_documents"],
            "index": ["Hit", "SearchIndex"],
            "manifest": ["Manifest", "Recall"],
            "negatives": ["MinedCounts", "mine_negatives"],
            "plan": ["IndexPlan", "estimate_bytes", "plan_index"],
            "source": ["EncoderSource"],
        },
    )

__all__ = [
    "Document",
    "EncoderSource",
    "Hit",
    "IndexPlan",
    "Manifest",
    "MinedCounts",
    "Recall",
    "SearchIndex",
    "estimate_bytes",
    "mine_negatives",
    "plan_index",
    "read_documents",
]
