"""LangChain: a vector store over a living index, and embeddings by any encoder of sentemb."""

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
# What the classes of LangChain call their model.
_MODEL_NAMES = ("model", "model_name", "model_id", "repo_id", "deployment", "dimensions")


class EmbeddingsEncoder:
    """Embeddings of LangChain as the encoder of an index: they encode documents.

    Args:
        embeddings: The embeddings.
        name: What they are called, which is all that an index can recognise them by. By default their class
            and what it calls its model.
    """

    def __init__(self, embeddings: Embeddings, name: str | None = None) -> None:
        kind = type(embeddings)
        values = ((field, getattr(embeddings, field, None)) for field in _MODEL_NAMES)
        named = [f"{field}={value}" for field, value in values if isinstance(value, (str, int))]
        self.name = name or " ".join([f"{kind.__module__}.{kind.__qualname__}", *named])
        # It changes with the name: what is behind it cannot be seen.
        self.fingerprint = hashlib.blake2b(self.name.encode(), digest_size=16).hexdigest()
        self._embeddings = embeddings

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; asking for it embeds a word, once."""
        return len(self._embeddings.embed_query("dimension"))

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Return the vectors (n, dim) of documents."""
        vectors = np.array(self._embeddings.embed_documents(list(texts)), dtype=np.float32)
        check_finite(vectors, texts, name=self.name)
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are made."""
        return {"backend": "embeddings", "name": self.name}


class SentembEmbeddings(Embeddings):
    """Embeddings by an encoder of sentemb, for any vector store of LangChain.

    Args:
        model: Anything `sentemb.encoding.load_encoder` takes. Queries and documents get the prompts and
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
    """A vector store of LangChain over an index of sentemb.

    Args:
        embedding: Any embeddings of LangChain. A new store embeds one word with them, to see their dimension.
        path: The folder of the index, which is made or opened; by default the index lives as long as the
            store.
        name: What the embeddings are called; a folder opens only with embeddings of the same name. By default
            their class and what it calls its model.
        metric: `cosine` or `dot`, of a new index; by default the similarity that the model was trained for.
        language: Code of the language by whose rules a new index finds words; `auto` has no document to tell
            it from, so that words are found as they are written.

    Raises:
        InputError: The folder holds another index, a damaged one, or one of other embeddings.

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
        """Make or open a store and add texts to it.

        Args:
            texts: As for `add_texts`.
            embedding: As for the class, like `options`.
            metadatas: As for `add_texts`.
            ids: As for `add_texts`.
            options: `path`, `name`, `metric` and `language`.

        Returns:
            The store.
        """
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
        """Add texts, in the place of those that have their ids; all or none.

        Args:
            texts: The texts. Blank ones are left out with a warning.
            metadatas: What is known of each, as JSON can hold it.
            ids: The id of each; by default, or where it is None, a new one.

        Returns:
            The ids.

        Raises:
            InputError: Not one of the metadata or ids for each text, an id that occurs twice, or metadata
                that JSON cannot hold.
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
        """Add documents, in the place of those that have their ids; all or none.

        Args:
            documents: The documents; `ids` come before their own ids.
            ids: As for `add_texts`.
            batch_size: What LangChain's `index` passes. It changes nothing: one call is one transaction.

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
        """Delete the documents with these ids that exist; all documents without any ids."""
        self.index.delete(ids_of(self.index.documents()) if ids is None else own_ids(self.index, ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids that exist."""
        found = self.index.get(own_ids(self.index, ids))
        return [_document(one.id, one.text, one.metadata) for one in found if one is not None]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, mode: Mode = "dense"
    ) -> list[Document]:
        """Return the documents nearest to a query.

        Args:
            query: The query.
            k: How many; all where there are fewer.
            filter: Conditions on their metadata, such as `{"year": {">=": 2020}, "lang": "en"}`; see
                `sentemb.search.Where`. There are `k` documents if so many meet them.
            mode: `dense` compares embeddings, `keyword` ranks by words, with BM25, and `hybrid` joins both.

        Returns:
            The documents, best first.

        Raises:
            InputError: `k` is not positive, or a condition is none.
        """
        scored = self.similarity_search_with_score(query, k, filter=filter, mode=mode)
        return [document for document, _ in scored]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, mode: Mode = "dense"
    ) -> list[tuple[Document, float]]:
        """Return documents as `similarity_search` does, with scores: `dense`, the cosine or dot product."""
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
        """Return documents near to a query and far from each other.

        Args:
            query: The query.
            k: How many.
            fetch_k: From how many nearest they are chosen.
            lambda_mult: Weight of the nearness to the query, 0 to 1, against the distance from each other.
            filter: As for `similarity_search`.

        Returns:
            The documents, in the order of the choice.

        Raises:
            InputError: As for `similarity_search`, or there are no such documents.
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
        """Score without another mode: only cosines are relevance."""
        scored: list[tuple[Document, float]] = super()._similarity_search_with_relevance_scores(
            query, k, filter=filter
        )
        return scored

    def _select_relevance_score_fn(self) -> Any:
        """Return cosines as LangChain's relevance from 0 to 1: what is below 0 is irrelevant."""
        if self.index.manifest.metric != "cosine":
            hint = "create the store with the metric cosine"
            raise InputError("dot products are not relevance scores from 0 to 1", hint)
        return lambda score: min(1.0, max(0.0, score))


def _document(identifier: str | int | None, text: str, metadata: Mapping[str, Any]) -> Document:
    return Document(id=str(identifier), page_content=text, metadata=dict(metadata))


def _diverse(nearness: Vectors, vectors: Vectors, k: int, weight: float) -> list[int]:
    """Choose places one after the other, each for its nearness and against that to the chosen."""
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
