"""A document store on an index that can be updated."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

from sentemb.encoding.encoder import Vectors, for_role
from sentemb.encoding.tokens import tokens_of
from sentemb.errors import InputError
from sentemb.integrations import ids_of, own_ids
from sentemb.integrations.haystack.filters import Conditions, conditions_of
from sentemb.search import SearchIndex
from sentemb.search.documents import encode_checked
from sentemb.search.folder import is_index, read_manifest
from sentemb.search.plan import Metric
from sentemb.search.searching import Mode
from sentemb.search.where import value_of

_RESERVED = "_haystack"
_NO_VECTOR = f"{_RESERVED}.no_vector"
_MARK = "\x1f-"  # takes the place of a blank text, which an index would skip


class _Record(NamedTuple):
    """Text and metadata of a document of an index, its own vector if any, and whether to encode it."""

    text: str
    metadata: dict[str, Any]
    embedding: Sequence[float] | None
    encoded: bool


class _GivenVectors:
    """The encoder of an index whose documents have their own vectors; it does not encode texts."""

    name = "given vectors"
    fingerprint = "given-vectors-1"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Raise InputError: the store does not have an encoder."""
        hint = "pass a query_embedding, or create the store with an encoder"
        raise InputError("the store does not have an encoder", hint)

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed."""
        return {"backend": "given"}


def _to_record(document: Document, *, encodes: bool) -> _Record:
    """Return a record of a document; with `encodes`, a text without a vector is encoded."""
    if _RESERVED in document.meta:
        raise InputError(f"the field name {_RESERVED!r} is reserved", "choose another name")
    fields = document.to_dict(flatten=False)
    kept = {name: fields[name] for name in ("blob", "score", "sparse_embedding") if fields[name] is not None}
    text, embedding = document.content or "", document.embedding
    encoded = encodes and embedding is None and bool(text.strip())
    if not text.strip():
        kept["length"] = None if document.content is None else len(text)
        text += _MARK
    if embedding is not None:
        # Exact, in half the space if float32 can represent the numbers.
        exact = np.asarray(embedding, dtype="<f8")
        single = exact.astype("<f4")
        numbers = single if np.array_equal(single.astype("<f8"), exact) else exact
        kept["embedding"] = f"{numbers.dtype.itemsize}:{base64.b64encode(numbers.tobytes()).decode()}"
    elif not encoded:
        kept["no_vector"] = True
    metadata = {**document.meta, _RESERVED: kept} if kept else dict(document.meta)
    return _Record(text, metadata, embedding, encoded)


def _to_document(key: str | int | None, text: str, metadata: Mapping[str, Any], **more: Any) -> Document:
    """Return the document of a record."""
    meta = dict(metadata)
    kept = dict(meta.pop(_RESERVED, {}))
    kept.pop("no_vector", None)
    length = kept.pop("length", len(text))
    if (packed := kept.get("embedding")) is not None:
        size, _, numbers = packed.partition(":")
        kept["embedding"] = np.frombuffer(base64.b64decode(numbers), dtype=f"<f{size}").tolist()
    content = None if length is None else text[:length]
    return Document.from_dict({"id": str(key), "content": content, "meta": meta, **kept, **more})


class SentembDocumentStore:
    """A document store of Haystack on an index of sentemb.

    Documents keep their own embeddings. Documents without embeddings are encoded if the store has an encoder;
    otherwise they are found only by filters and keyword search.

    Args:
        path: Folder of the index, which is created or opened. By default the index is kept in memory.
        encoder: A model that `sentemb.encoding.load_encoder` accepts; by default that of the folder.
        embedding_dim: Length of the embeddings of a new store without an encoder.
        metric: `cosine` or `dot`, for a new store; by default the similarity that the model was trained for.
        language: Code of the language whose rules a new store uses for keyword search. With `auto`, an empty
            store does not have documents to detect it from, so words are matched as they are written.

    Raises:
        InputError: The index in the folder is damaged or belongs to another encoder, or a new store has
            neither an encoder nor `embedding_dim`.

    Example:
        >>> from haystack import Document
        >>> store = SentembDocumentStore(encoder="static-mini")
        >>> store.write_documents([Document(content="a cat sat", meta={"year": 2020})])
        1
    """

    def __init__(
        self,
        path: str | Path | None = None,
        encoder: Any | None = None,
        *,
        embedding_dim: int | None = None,
        metric: Metric | None = None,
        language: str = "auto",
    ) -> None:
        self._given = {
            "path": None if path is None else str(path),
            "encoder": str(encoder) if isinstance(encoder, Path) else encoder,
            "embedding_dim": embedding_dim,
            "metric": metric,
            "language": language,
        }
        if path is None or not is_index(path):
            if encoder is None and embedding_dim is None:
                raise InputError("a new store needs an encoder or embedding_dim", "pass one of them")
            chosen = _GivenVectors(embedding_dim) if encoder is None and embedding_dim else encoder
            index = SearchIndex.build((), chosen, metric=metric, language=language, allow_empty=True)
            if path is not None:
                index.save(path)
        if path is not None:
            facts = read_manifest(Path(path))
            if encoder is None and facts.encoder.fingerprint == _GivenVectors.fingerprint:
                encoder = _GivenVectors(facts.dimension)
            index = SearchIndex.load(path, encoder)
        self.index = index
        self._encodes = self.index.manifest.encoder.fingerprint != _GivenVectors.fingerprint

    def to_dict(self) -> dict[str, Any]:
        """Serialize the store for a pipeline file.

        Raises:
            InputError: The encoder of the store is an object instead of a name.
        """
        if not isinstance(self._given["encoder"], (str, type(None))):
            raise InputError(
                "a store whose encoder is an object cannot be serialized",
                "create the store with the name or the folder of a model",
            )
        stored: dict[str, Any] = default_to_dict(self, **self._given)
        return stored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SentembDocumentStore:
        """Load the store from a pipeline file."""
        store: SentembDocumentStore = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """Return the number of documents."""
        return len(self.index)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that a filter matches."""
        return self.index.count(_where(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that a filter matches, in the order in which they were written.

        Args:
            filters: A filter on fields of `meta`, in Haystack's language; without one, all documents match.

        Returns:
            The documents.

        Raises:
            FilterError: The filter is invalid, or compares values that cannot be compared.
        """
        found = self.index.documents(_where(filters))
        return [_to_document(one.id, one.text, one.metadata) for one in found]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, all of them or none.

        Args:
            documents: The documents.
            policy: Policy for documents whose id is in the store. `FAIL`, the same as `NONE`, writes nothing
                and raises an error, `SKIP` keeps the existing document, and `OVERWRITE` replaces it. If an id
                occurs several times in a call, `SKIP` uses the first document and `OVERWRITE` the last.

        Returns:
            Number of written documents; with `OVERWRITE` the number of all provided documents.

        Raises:
            ValueError: `documents` is not a list of documents.
            DuplicateDocumentError: An id is in the store or occurs twice, and the policy is `FAIL`.
            InputError: An embedding has another length, or metadata cannot be stored as JSON.
        """
        documents = list(documents) if isinstance(documents, Iterable) else [documents]
        if any(not isinstance(document, Document) for document in documents):
            raise ValueError("write_documents needs a list of documents")
        last_wins = policy == DuplicatePolicy.OVERWRITE
        unique = {document.id: document for document in (documents if last_wins else documents[::-1])}
        chosen = list(unique.values()) if last_wins else list(unique.values())[::-1]
        if last_wins:
            self._write(chosen, self.index.update)
            return len(documents)
        known = {str(one.id) for one in self.index.get(own_ids(self.index, list(unique))) if one is not None}
        if policy == DuplicatePolicy.SKIP:
            chosen = [document for document in chosen if document.id not in known]
        elif known or len(chosen) < len(documents):
            times = Counter(document.id for document in documents)
            twice = next(key for key, count in times.items() if key in known or count > 1)
            raise DuplicateDocumentError(f"the id {twice!r} is already in the store, or occurs twice")
        self._write(chosen, self.index.add)
        return len(chosen)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents with these ids, if they exist."""
        self.index.delete(own_ids(self.index, document_ids))

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        self.index.delete(ids_of(self.index.documents()))

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that a filter matches, and return their number."""
        return self.index.delete(ids_of(self.index.documents(_where(filters))))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of `meta` of the documents that a filter matches, and return their number."""
        changed = [replace(one, meta={**one.meta, **meta}) for one in self.filter_documents(filters)]
        return self.write_documents(changed, DuplicatePolicy.OVERWRITE)

    def find(
        self,
        query: str,
        *,
        mode: Mode,
        query_embedding: list[float] | None,
        filters: dict[str, Any] | None,
        top_k: int,
    ) -> list[Document]:
        """Return the best documents for a query, with their scores; for the retrievers."""
        where = _where(filters)
        vectors = None if query_embedding is None else [query_embedding]
        hits = self.index.search(query, top_k, mode=mode, where=where, vectors=vectors)
        if mode == "dense" and any(value_of(hit.metadata, _NO_VECTOR) for hit in hits):
            embedded: Conditions = {_NO_VECTOR: {"exists": False}}
            where = embedded if where is None else {"$and": [where, embedded]}
            hits = self.index.search(query, top_k, where=where, vectors=vectors)
        return [_to_document(hit.id, hit.text, hit.metadata, score=hit.score) for hit in hits]

    def _write(self, documents: list[Document], write: Any) -> None:
        records = [_to_record(document, encodes=self._encodes) for document in documents]
        keys = own_ids(self.index, [one.id for one in documents])
        rows = [(key, one.text, one.metadata) for key, one in zip(keys, records, strict=True)]
        write(rows, None if all(record.encoded for record in records) else self._vectors(records))

    def _vectors(self, records: list[_Record]) -> Vectors:
        """Return the documents' own vectors or those of their texts; zeros if there is neither."""
        vectors = np.zeros((len(records), self.index.manifest.dimension), dtype=np.float32)
        for place, record in enumerate(records):
            if record.embedding is not None:
                if len(record.embedding) != vectors.shape[1]:
                    raise InputError(
                        f"document {place} has an embedding of {len(record.embedding)} dimensions, "
                        f"but the store has {vectors.shape[1]}"
                    )
                vectors[place] = record.embedding
        encoded = [place for place, record in enumerate(records) if record.encoded]
        if encoded:
            texts = [records[place].text for place in encoded]
            encoder = for_role(self.index.encoder, "document")
            tokens = tokens_of(encoder)
            if tokens is not None and (tokens.lengths(texts) > tokens.room).any():
                raise InputError(
                    f"a document without an embedding is longer than the {tokens.room} tokens of the encoder",
                    "write documents without embeddings in a separate call",
                )
            vectors[encoded] = encode_checked(encoder, texts)
        return vectors


def _where(filters: dict[str, Any] | None) -> Conditions | None:
    if not filters:
        return None
    try:
        return conditions_of(filters)
    except InputError as error:
        raise FilterError(str(error)) from error
