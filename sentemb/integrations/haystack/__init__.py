"""Haystack: a document store on an index that can be updated, and its retrievers."""

from __future__ import annotations

from sentemb.errors import InputError

try:
    import haystack as _haystack  # noqa: F401  # what the modules below import
except ImportError as error:
    raise InputError(
        "sentemb.integrations.haystack needs haystack-ai", "pip install 'sentemb[haystack]'"
    ) from error

from sentemb.integrations.haystack.retrievers import SentembEmbeddingRetriever, SentembTextRetriever
from sentemb.integrations.haystack.store import SentembDocumentStore

__all__ = ["SentembDocumentStore", "SentembEmbeddingRetriever", "SentembTextRetriever"]
