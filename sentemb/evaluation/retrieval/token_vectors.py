"""Late-interaction and sparse models of sentence-transformers, searched exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sentence_transformers import MultiVectorEncoder, SparseEncoder

from sentemb.data.retrieval import RetrievalSet
from sentemb.data.stored_texts import Places, first_places
from sentemb.encoding import NonFiniteError, Role
from sentemb.encoding.nearest import Hits, Single
from sentemb.encoding.resolve import name_of
from sentemb.encoding.view import fingerprint_of
from sentemb.evaluation.retrieval.ranking import id_places, nearest
from sentemb.evaluation.retrieval.searchers import new_texts
from sentemb.modules.check import loading
from sentemb.modules.source import find_source, naming_code

_CLASSES = {"sparse": SparseEncoder, "multi-vector": MultiVectorEncoder}
# Documents whose vectors are held at a time: late interaction has hundreds of vectors for each.
_DOCUMENTS = {"sparse": 16_384, "multi-vector": 2048}


class TokenSearcher:
    """Exact search by a `SparseEncoder`, or by a `MultiVectorEncoder`, which adds up each token's best match.

    Texts are encoded by the model's own `encode_query` and `encode_document`, each unique one once.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        source = find_source(name)
        self._kind = source.kind
        self.name = name_of(name)
        build: Any = _CLASSES[self._kind]
        with naming_code(source), loading(source.address):
            self.model: Any = build(source.address, device=device, revision=source.revision)
        self._numbers = self._encoded = 0

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and modules."""
        return fingerprint_of(self.model)

    @property
    def dimension(self) -> int | None:
        """Length of the vector of a token; the size of the vocabulary for sparse vectors."""
        dimension: int | None = self.model.get_embedding_dimension()
        return dimension

    @property
    def numbers(self) -> float:
        """Numbers that are stored for a document, the mean over those that were encoded so far."""
        return self._numbers / max(self._encoded, 1)

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        firsts = first_places(data.documents)
        queries = self.vectors(data.queries, "query", progress=progress)

        def compare(rows: Places, documents: Any) -> Single:
            """Return the similarities of some queries and documents."""
            if self._kind == "sparse":
                similar: Single = (queries[rows] @ documents.T).toarray()
                return similar
            some = [queries[row] for row in rows]
            scores = self.model.similarity(some, documents, device=self.model.device)
            return np.asarray(scores.float().cpu().numpy(), dtype=np.float32)

        def blocks() -> Iterator[tuple[Places, Any]]:
            for rows, texts in new_texts(data.documents, firsts, _DOCUMENTS[self._kind]):
                yield rows, self.vectors(texts, "document", progress=progress)

        rows = np.arange(len(data.queries))
        return nearest(rows, blocks(), firsts, id_places(data), depth, compare=compare)

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        return {
            "encoder": type(self.model).__name__,
            "backend": f"{type(self.model).__name__}.encode",
            "similarity": str(self.model.similarity_fn_name),
            "numbers_per_document": round(self.numbers, 1),
            "device": str(self.model.device),
        }

    def vectors(self, texts: Sequence[str], role: Role, *, progress: bool = False) -> Any:
        """Return a sparse matrix (texts, vocabulary), or a list of vectors (tokens, dimension) of each."""
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        if self._kind == "multi-vector":
            found = encode(list(texts), convert_to_numpy=True, show_progress_bar=progress)
            vectors, stored = found, [np.asarray(one) for one in found]
        else:
            found = encode(list(texts), save_to_cpu=True, show_progress_bar=progress).coalesce()
            values, places = found.values().float().numpy(), found.indices().numpy()
            vectors, stored = sparse.csr_array((values, places), shape=tuple(found.shape)), [values]
            if self.model.similarity_fn_name == "cosine":
                lengths = np.sqrt(vectors.power(2).sum(axis=1))
                vectors.data /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(vectors.indptr))
        if not all(np.isfinite(one).all() for one in stored):
            raise NonFiniteError(f"{self.name} returned NaN or infinity", "check the model's weights")
        if role == "document":
            self._numbers += sum(one.size for one in stored)
            self._encoded += len(texts)
        return vectors
