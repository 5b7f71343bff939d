"""Reference for an index that changes: documents in plain Python, compared with every vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from sentemb._fusion import FUSED
from sentemb.search import Hit, SearchIndex
from tests.search.bag_of_words import FewWords
from tests.search.others import Reader
from tests.search.reference import agree, bm25, fused, words_of

Id = str | int
FILTERS: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({"year": 1999}, lambda fields: fields.get("year") == 1999),
    ({"year": {">": 1999}}, lambda fields: fields.get("year", 0) > 1999),
    ({"$not": {"year": 1999}}, lambda fields: fields.get("year") != 1999),
    (
        {"$or": [{"year": {"in": [2001]}}, {"kill": {">=": 2}}]},
        lambda fields: fields.get("year") == 2001 or fields.get("kill", 0) >= 2,
    ),
    (
        {"year": {"exists": True}, "kill": {"exists": False}},
        lambda fields: "year" in fields and "kill" not in fields,
    ),
]


def passages_of(text: str, room: int) -> list[str]:
    """Split a text into as few passages of at most `room` words as possible, as even as possible."""
    words = text.split()
    count = -(-len(words) // room)
    size = -(-len(words) // count)
    return [" ".join(words[first : first + size]) for first in range(0, len(words), size)]


class Model:
    """Documents in the order in which they were last written, and a vector for each of their passages."""

    def __init__(self) -> None:
        self.documents: dict[Id, tuple[str, dict[str, Any]]] = {}
        self.passages: dict[Id, list[str]] = {}
        self.vectors: dict[Id, list[np.ndarray]] = {}
        self.next_id = 0

    def put(
        self,
        rows: Iterable[tuple[Id, str, dict[str, Any]]],
        vectors: np.ndarray | None = None,
        truncate: str = "split",
    ) -> None:
        encoder = FewWords()
        for place, (key, text, metadata) in enumerate(rows):
            self.documents.pop(key, None)
            if isinstance(key, int):
                self.next_id = max(self.next_id, key + 1)
            if not text.strip():
                continue
            self.documents[key] = (text, metadata)
            whole = vectors is not None or truncate == "warn"
            self.passages[key] = [text] if whole else passages_of(text, encoder.tokens.room)
            rows = encoder.encode(self.passages[key]) if vectors is None else vectors[[place]]
            self.vectors[key] = [row / np.linalg.norm(row) for row in rows]
        self._forget()

    def drop(self, ids: Iterable[Id]) -> int:
        before = len(self.documents)
        for key in ids:
            self.documents.pop(key, None)
        self._forget()
        return before - len(self.documents)

    def copy(self) -> Model:
        return deepcopy(self)

    def _forget(self) -> None:
        self.passages = {key: self.passages[key] for key in self.documents}
        self.vectors = {key: self.vectors[key] for key in self.documents}

    def is_that_of(self, index: SearchIndex | Reader) -> bool:
        """Return True if the index has the ids, texts and metadata of these documents."""
        found = index.get(self.documents)
        return len(index) == len(self.documents) and all(
            document is not None and (document.text, dict(document.metadata)) == self.documents[document.id]
            for document in found
        )

    def check(self, index: SearchIndex | Reader, query: str, k: int, which: int) -> None:
        """Compare dense, keyword and hybrid search with the exact results, also with a filter."""
        where, meets = FILTERS[which % len(FILTERS)]
        chosen = {key: row for key, row in self.documents.items() if meets(row[1])}
        self.check_vectors(index.search(query, k), query, k)
        self._check(index.search(query, k, where=where), chosen, query, k)
        texts = {key: text for key, (text, _) in self.documents.items()}
        everything = bm25(texts, (words_of(query), {}), len(texts))
        assert agree(index.search(query, k, mode="keyword"), everything[:k])
        found = index.search(query, k, mode="keyword", where=where)
        assert agree(found, [pair for pair in everything if pair[0] in chosen][:k])
        both = [index.search(query, FUSED, mode=mode) for mode in ("dense", "keyword")]
        assert agree(index.search(query, k, mode="hybrid"), fused(*both, texts, k, total=len(texts)))

    def check_vectors(self, hits: list[Hit], query: str, k: int) -> None:
        """Compare the hits of a dense search with every vector."""
        self._check(hits, self.documents, query, k)

    def _check(
        self, hits: list[Hit], documents: dict[Id, tuple[str, dict[str, Any]]], query: str, k: int
    ) -> None:
        vector = FewWords().encode([query])[0]
        vector /= np.linalg.norm(vector)
        near = {key: [float(own @ vector) for own in rows] for key, rows in self.vectors.items()}
        scores = {key: max(near[key]) for key in documents}
        best = sorted(scores.values(), reverse=True)[:k]
        assert len({(type(hit.id), hit.id) for hit in hits}) == len(hits) == min(k, len(scores))
        assert np.allclose([hit.score for hit in hits], best, rtol=0, atol=1e-6)
        for hit in hits:
            assert abs(hit.score - scores[hit.id]) <= 1e-6
            assert (hit.text, hit.metadata) == documents[hit.id]
            best_one = hit.text if hit.passage is None else hit.text[slice(*hit.passage)]
            if len(self.passages[hit.id]) > 1:
                of_passage = [
                    score
                    for passage, score in zip(self.passages[hit.id], near[hit.id], strict=True)
                    if passage == best_one
                ]
                assert of_passage and abs(max(of_passage) - hit.score) <= 1e-6
            else:  # a truncated text is shown up to where the model reads
                assert best_one in (hit.text, " ".join(hit.text.split()[:2]) + " ")
        alike = {
            key: (row[0], tuple(one.tobytes() for one in self.vectors[key])) for key, row in documents.items()
        }
        for one in {alike[hit.id] for hit in hits}:  # in the order they were written, without gaps
            ids = [hit.id for hit in hits if alike[hit.id] == one]
            assert ids == [key for key in documents if alike[key] == one][: len(ids)]
