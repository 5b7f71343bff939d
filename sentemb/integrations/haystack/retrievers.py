"""Components that search a store."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from sentemb.integrations.haystack.store import SentembDocumentStore
from sentemb.search.searching import Mode


@component
class SentembEmbeddingRetriever:
    """Documents of a `SentembDocumentStore` near to an embedding of a query.

    Args:
        document_store: The store.
        filters: Which documents may be found.
        top_k: How many.
        filter_policy: Whether filters of a run replace these or are combined with them.

    Example:
        >>> found = SentembEmbeddingRetriever(store).run(query_embedding)  # doctest: +SKIP
    """

    def __init__(
        self,
        document_store: SentembDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        """The retriever for a pipeline's file."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SentembEmbeddingRetriever:
        """The retriever of a pipeline's file."""
        retriever: SentembEmbeddingRetriever = default_from_dict(cls, data)
        return retriever

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find documents.

        Args:
            query_embedding: The embedding.
            filters: Which documents may be found.
            top_k: How many.

        Returns:
            `documents`, best first, each with its score.
        """
        return _found(self, "", "dense", query_embedding, filters, top_k)


@component
class SentembTextRetriever:
    """Documents of a `SentembDocumentStore` for the text of a query.

    Args:
        document_store: The store.
        mode: `dense` compares embeddings, `keyword` ranks by words, with BM25, and `hybrid` joins both.
        filters: Which documents may be found.
        top_k: How many.
        filter_policy: Whether filters of a run replace these or are combined with them.

    Example:
        >>> found = SentembTextRetriever(store, mode="hybrid").run("kitten")  # doctest: +SKIP
    """

    def __init__(
        self,
        document_store: SentembDocumentStore,
        mode: Mode = "hybrid",
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        self.document_store = document_store
        self.mode = mode
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        """The retriever for a pipeline's file."""
        return _to_dict(self, mode=self.mode)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SentembTextRetriever:
        """The retriever of a pipeline's file."""
        retriever: SentembTextRetriever = default_from_dict(cls, data)
        return retriever

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Find documents.

        Args:
            query: The query.
            query_embedding: Its embedding, which a store without an encoder needs unless the mode is
                `keyword`.
            filters: Which documents may be found.
            top_k: How many.

        Returns:
            `documents`, best first, each with its score.
        """
        return _found(self, query, self.mode, query_embedding, filters, top_k)


def _to_dict(retriever: Any, **more: Any) -> dict[str, Any]:
    stored: dict[str, Any] = default_to_dict(
        retriever,
        document_store=retriever.document_store.to_dict(),
        filters=retriever.filters,
        top_k=retriever.top_k,
        filter_policy=retriever.filter_policy.value,
        **more,
    )
    return stored


def _found(
    retriever: Any,
    query: str,
    mode: Mode,
    embedding: list[float] | None,
    filters: dict[str, Any] | None,
    top_k: int | None,
) -> dict[str, list[Document]]:
    documents = retriever.document_store.find(
        query,
        mode=mode,
        query_embedding=embedding,
        filters=apply_filter_policy(retriever.filter_policy, retriever.filters, filters),
        top_k=retriever.top_k if top_k is None else top_k,
    )
    return {"documents": documents}
