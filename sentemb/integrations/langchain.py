"""LangChain: a vector store on an index that can be updated, and embeddings from any encoder of sentemb."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.encoding import EncoderSpec
from sentemb.encoding.encoder import TextEncoder, Vectors, check_finite, for_role, normalised
from sentemb.errors import InputError
from sentemb.integrations import ids_of, own_ids
from sentemb.search import SearchIndex
from sentemb.search.folder import is_index
from sentemb.search.manifest import resolve
from sentemb.search.plan import Metric
from sentemb.search.searching import Hit, Mode

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
except ImportError as error:
    raise InputError(
        "sentemb.integrations.langchain needs langchain-core", "pip install 'sentemb[langchain]'"
    ) from error

__all__ = ["SentembEmbeddings", "SentembVectorStore"]

logger = logging.getLogger(__name__)
# Attributes in which classes of LangChain keep the name of their model.
_MODEL_NAMES = ("model", "model_name", "model_id", "repo_id", "deployment", "dimensions")


class EmbeddingsEncoder:
    """Embeddings of LangChain as the encoder of an index; they encode documents.

    Args:
        embeddings: The embeddings.
        name: Name of the embeddings, by which an index recognises them. By default their class and model
            name.
    """

    def __init__(self, embeddings: Embeddings, name: str | None = None) -> None:
        kind = type(embeddings)
        values = ((field, getattr(embeddings, field, None)) for field in _MODEL_NAMES)
        named = [f"{field}={value}" for field, value in values if isinstance(value, (str, int))]
        self.name = name or " ".join([f"{kind.__module__}.{kind.__qualname__}", *named])
        # It depends on the name only, since the model behind it is unknown.
        self.fingerprint = hashlib.blake2b(self.name.encode(), digest_size=16).hexdigest()
        self._embeddings = embeddings

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; the first access embeds one word."""
        return len(self._embeddings.embed_query("dimension"))

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Return the vectors (n, dim) of documents."""
        vectors = np.array(self._embeddings.embed_documents(list(texts)), dtype=np.float32)
        check_finite(vectors, texts, name=self.name)
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed."""
        return {"backend": "embeddings", "name": self.name}


class SentembEmbeddings(Embeddings):
    """Embeddings from an encoder of sentemb, for any vector store of LangChain.

    Args:
        model: A model that `sentemb.encoding.load_encoder` accepts. Queries and documents use the prompts and
            routes that it was trained with.

    Example:
        >>> vector = SentembEmbeddings("static-mini").embed_query("a cat sat")
        >>> len(vector)
        256
    """

    def __init__(self, model: Any) -> None:
        self.encoder: TextEncoder = resolve(model)
        self.source = EncoderSpec(str(model)) if isinstance(model, (str, Path)) else None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of documents."""
        vectors = for_role(self.encoder, "document").encode(texts) if texts else np.empty((0, 0))
        return vectors.tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return for_role(self.encoder, "query").encode([text])[0].tolist()  # type: ignore[no-any-return]


class SentembVectorStore(VectorStore):
    """A vector store of LangChain on an index of sentemb.

    Args:
        embedding: Any embeddings of LangChain. A new store embeds one word to determine their dimension.
        path: Folder of the index, which is created or opened. By default the index is kept in memory.
        name: Name of the embeddings; a folder opens only with embeddings of the same name. By default their
            class and model name.
        metric: `cosine` or `dot`, for a new index; by default the similarity that the model was trained for.
        language: Code of the language whose rules a new index uses for keyword search. With `auto`, an empty
            index does not have documents to detect it from, so words are matched as they are written.

    Raises:
        InputError: The folder is not an index, is damaged, or belongs to other embeddings.

    Example:
        >>> store = SentembVectorStore(SentembEmbeddings("static-mini"))
        >>> ids = store.add_texts(["a cat sat", "birds fly"])
        >>> store.similarity_search("kitten", k=1)[0].page_content
        'a cat sat'
    """

    def __init__(
        self,
        embedding: Embeddings,
        path: str | Path | None = None,
        *,
        name: str | None = None,
        metric: Metric | None = None,
        language: str = "auto",
    ) -> None:
        self._embedding = embedding
        ours = isinstance(embedding, SentembEmbeddings)
        encoder = embedding.encoder if ours else EmbeddingsEncoder(embedding, name)
        if path is None or not is_index(path):
            source = embedding.source if ours else None
            how: Any = {"source": source, "metric": metric, "language": language}
            index = SearchIndex.build((), encoder, **how, allow_empty=True)
            if path is not None:
                index.save(path)
        self.index = index if path is None else SearchIndex.load(path, encoder)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **options: Any,
    ) -> SentembVectorStore:
        """Create or open a store with the options of the class, and add texts as `add_texts` does."""
        store = cls(embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> Embeddings:
        """The embeddings."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Add texts and replace those with the same ids, in one transaction.

        Args:
            texts: The texts. Blank texts are skipped with a warning.
            metadatas: Metadata of each text, as JSON values.
            ids: Id of each text; a missing id or None is replaced with a new one.

        Returns:
            The ids.

        Raises:
            InputError: The numbers of texts, metadata and ids differ, an id occurs twice, or metadata cannot
                be stored as JSON.
        """
        texts = list(texts)
        for what, values in (("metadatas", metadatas), ("ids", ids)):
            if values is not None and len(values) != len(texts):
                why = f"there are {len(texts)} texts, but {len(values)} {what}"
                raise InputError(why, "pass one for each text")
        named = [key or str(uuid.uuid4()) for key in ids or repeat(None, len(texts))]
        rows = zip(own_ids(self.index, named), texts, metadatas or repeat({}), strict=False)
        changed = self.index.update(rows)
        if changed.skipped:
            logger.warning("%d blank documents were skipped", changed.skipped)
        return named

    def add_documents(
        self,
        documents: list[Document],
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Add documents and replace those with the same ids, in one transaction.

        Args:
            documents: The documents; `ids` take precedence over their own ids.
            ids: As for `add_texts`.
            batch_size: Passed by LangChain's `index` and ignored: one call is one transaction.

        Returns:
            The ids.

        Raises:
            InputError: As for `add_texts`.
        """
        return self.add_texts(
            [document.page_content for document in documents],
            [document.metadata for document in documents],
            ids=ids or [document.id for document in documents],
        )

    def delete(self, ids: Sequence[str] | None = None) -> bool:
        """Delete the documents with these ids, if they exist; without ids, delete all documents."""
        self.index.delete(ids_of(self.index.documents()) if ids is None else own_ids(self.index, ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, if they exist."""
        found = self.index.get(own_ids(self.index, ids))
        return [_document(one.id, one.text, one.metadata) for one in found if one is not None]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, mode: Mode = "dense"
    ) -> list[Document]:
        """Return the documents nearest to a query.

        Args:
            query: The query.
            k: Maximum number of documents.
            filter: Conditions on the metadata, such as `{"year": {">=": 2020}, "lang": "en"}`; see
                `sentemb.search.Where`. `k` applies to the documents that match the filter.
            mode: `dense` compares embeddings, `keyword` ranks by BM25, and `hybrid` combines both.

        Returns:
            The documents, best first.

        Raises:
            InputError: `k` is not positive, or a condition is invalid.
        """
        scored = self.similarity_search_with_score(query, k, filter=filter, mode=mode)
        return [document for document, _ in scored]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, mode: Mode = "dense"
    ) -> list[tuple[Document, float]]:
        """Return documents as `similarity_search` does, with scores: for `dense`, cosine or dot product."""
        vectors = None if mode == "keyword" else [self._embedding.embed_query(query)]
        hits = self.index.search(query, k, mode=mode, where=filter, vectors=vectors)
        return [(_document(hit.id, hit.text, hit.metadata), hit.score) for hit in hits]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Mapping[str, Any] | None = None
    ) -> list[Document]:
        """Return documents as `similarity_search` does, for the vector of a query."""
        return [_document(hit.id, hit.text, hit.metadata) for hit in self._hits(embedding, k, filter)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """Return documents that are similar to a query and diverse, in the order of selection.

        Args:
            query: The query.
            k: Number of documents.
            fetch_k: Number of nearest documents to choose from.
            lambda_mult: Weight of the similarity to the query, 0 to 1, against the diversity.
            filter: As for `similarity_search`, like the errors.
        """
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """Return documents as `max_marginal_relevance_search` does, for the vector of a query."""
        hits = self._hits(embedding, max(k, fetch_k), filter)
        vectors = normalised(self.index.vectors(hit.id for hit in hits))
        nearness = vectors @ normalised(np.array([embedding], dtype=np.float32))[0]
        chosen = [hits[place] for place in _diverse(nearness, vectors, k, lambda_mult)]
        return [_document(hit.id, hit.text, hit.metadata) for hit in chosen]

    def _hits(self, vector: list[float], k: int, where: Mapping[str, Any] | None) -> list[Hit]:
        return self.index.search("", k, where=where, vectors=[vector])

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None
    ) -> list[tuple[Document, float]]:
        """Score by cosine, the only score that LangChain can use as relevance."""
        scored: list[tuple[Document, float]] = super()._similarity_search_with_relevance_scores(
            query, k, filter=filter
        )
        return scored

    def _select_relevance_score_fn(self) -> Any:
        """Return the function that clips cosines to LangChain's relevance scores from 0 to 1."""
        if self.index.manifest.metric != "cosine":
            hint = "create the store with the metric cosine"
            raise InputError("dot products are not relevance scores from 0 to 1", hint)
        return lambda score: min(1.0, max(0.0, score))


def _document(identifier: str | int | None, text: str, metadata: Mapping[str, Any]) -> Document:
    return Document(id=str(identifier), page_content=text, metadata=dict(metadata))


def _diverse(nearness: Vectors, vectors: Vectors, k: int, weight: float) -> list[int]:
    """Choose positions one by one, by similarity to the query minus similarity to those already chosen."""
    chosen: list[int] = []
    closest = np.zeros_like(nearness)
    value = nearness.copy()
    while len(chosen) < min(k, len(vectors)):
        value[chosen] = -np.inf
        best = int(np.argmax(value))
        chosen.append(best)
        likeness = vectors @ vectors[best]
        closest = likeness if len(chosen) == 1 else np.maximum(closest, likeness)
        value = weight * nearness - (1 - weight) * closest
    return chosen
