"""Components that search a store."""

from __future__ import annotations

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from sentemb.integrations.haystack.store import SentembDocumentStore
from sentemb.search.searching import Mode

Filters = dict[str, Any] | None


class _Retriever:
    """Base class of both retrievers."""

    def __init__(
        self,
        document_store: SentembDocumentStore,
        filters: Filters = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        self.document_store, self.filters, self.top_k = document_store, filters, top_k
        self.filter_policy = FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the retriever for a pipeline file."""
        fields = {name: getattr(self, name) for name in ("mode", "filters", "top_k") if hasattr(self, name)}
        fields["document_store"] = self.document_store.to_dict()
        stored: dict[str, Any] = default_to_dict(self, **fields, filter_policy=self.filter_policy.value)
        return stored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Load the retriever from a pipeline file."""
        retriever: Self = default_from_dict(cls, data)
        return retriever

    def _find(
        self, query: str, mode: Mode, embedding: list[float] | None, filters: Filters, top_k: int | None
    ) -> dict[str, list[Document]]:
        documents = self.document_store.find(
            query,
            mode=mode,
            query_embedding=embedding,
            filters=apply_filter_policy(self.filter_policy, self.filters, filters),
            top_k=self.top_k if top_k is None else top_k,
        )
        return {"documents": documents}


@component
class SentembEmbeddingRetriever(_Retriever):
    """Retrieve the documents of a `SentembDocumentStore` nearest to an embedding of a query.

    Args:
        document_store: The store.
        filters: Filters that the documents must match.
        top_k: Maximum number of documents.
        filter_policy: Whether the filters of a run replace these filters or are merged with them.

    Example:
        >>> found = SentembEmbeddingRetriever(store).run(query_embedding)  # doctest: +SKIP
    """

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self, query_embedding: list[float], filters: Filters = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return `documents`, best first, each with its score; `filters` and `top_k` as for the class."""
        return self._find("", "dense", query_embedding, filters, top_k)


@component
class SentembTextRetriever(_Retriever):
    """Retrieve the best documents of a `SentembDocumentStore` for the text of a query.

    Args:
        document_store: The store.
        mode: `dense` compares embeddings, `keyword` ranks by BM25, and `hybrid` combines both.
        filters: Filters that the documents must match.
        top_k: Maximum number of documents.
        filter_policy: Whether the filters of a run replace these filters or are merged with them.

    Example:
        >>> found = SentembTextRetriever(store, mode="hybrid").run("kitten")  # doctest: +SKIP
    """

    def __init__(
        self,
        document_store: SentembDocumentStore,
        mode: Mode = "hybrid",
        filters: Filters = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        # `component` creates a new class from this one, for which `super()` fails.
        _Retriever.__init__(self, document_store, filters, top_k, filter_policy)
        self.mode = mode

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: Filters = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return `documents`, best first, each with its score; `filters` and `top_k` as for the class.

        `query_embedding` is required if the store does not have an encoder, unless the mode is `keyword`.
        """
        return self._find(query, self.mode, query_embedding, filters, top_k)
