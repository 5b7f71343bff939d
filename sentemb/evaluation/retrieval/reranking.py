"""A second stage: a cross-encoder ranks the first documents of another system again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from sentence_transformers import CrossEncoder
from torch import nn

from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding.encoder import check_finite, unique_texts
from sentemb.encoding.nearest import Hits, Numbers, ranked
from sentemb.encoding.view import fingerprint_of
from sentemb.evaluation.retrieval.ranking import id_places
from sentemb.evaluation.retrieval.searchers import Searcher

RERANK = "rerank:"
"""Prefix of the names: `rerank:FIRST+CROSS-ENCODER`."""
CANDIDATES = 100
"""Documents of the first stage that the cross-encoder scores; those behind them keep their order."""


class RerankSearcher:
    """A system whose first 100 documents a cross-encoder ranks again.

    `milliseconds` holds what the second stage took per query, by the name of the set, of every search so far.
    """

    def __init__(self, first: Searcher, model: CrossEncoder, *, name: str) -> None:
        self.first, self.model = first, model
        self.name = f"{RERANK}{first.name}+{name}"
        self.milliseconds: dict[str, float] = {}

    @property
    def fingerprint(self) -> str:
        """A hash of both stages' fingerprints and of the number of candidates."""
        whole = f"{self.first.fingerprint} {self._own_fingerprint} {CANDIDATES}"
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def dimension(self) -> int | None:
        """Length of the first stage's vectors."""
        return self.first.dimension

    def search(self, data: RetrievalSet, depth: int, *, progress: bool = False) -> list[Hits]:
        """See `Searcher.search`."""
        found = self.first.search(data, max(depth, CANDIDATES), progress=progress)
        places = id_places(data)
        began = time.perf_counter()
        queries = track(
            [*zip(data.queries, found, strict=True)],
            "reranking",
            console=Console(stderr=True),
            transient=True,
            disable=not progress,
        )
        hits = [self._rank(query, one, data.documents, places) for query, one in queries]
        self.milliseconds[data.name] = 1000 * (time.perf_counter() - began) / max(len(hits), 1)
        return [Hits(one.documents[:depth], one.scores[:depth]) for one in hits]

    def describe(self) -> dict[str, Any]:
        """See `Searcher.describe`."""
        reranker = {
            "fingerprint": self._own_fingerprint,
            "candidates": CANDIDATES,
            "max_length": self.model.max_seq_length,
            "device": str(self.model.device),
            "threads": torch.get_num_threads(),
        }
        return {**self.first.describe(), "reranked_with": reranker}

    @cached_property
    def _own_fingerprint(self) -> str:
        return fingerprint_of(self.model)

    def _rank(self, query: str, hits: Hits, documents: Sequence[str], places: Numbers) -> Hits:
        """Return the hits of a query with the first of them in the order of the cross-encoder."""
        candidates = hits.documents[:CANDIDATES]
        if not len(candidates):
            return hits
        texts = [documents[number] for number in candidates.tolist()]
        unique, positions = unique_texts(texts)  # equal texts must tie
        # Without the model's activation, whose values can be equal where the scores differ.
        options: dict[str, Any] = {"activation_fn": nn.Identity(), "show_progress_bar": False}
        predicted = self.model.predict([(query, text) for text in unique], **options)
        scores = np.asarray(predicted, dtype=np.float32)[positions]
        check_finite(scores[:, None], texts, name=self.name)
        best = ranked(candidates, scores, places, CANDIDATES)
        rest = hits.documents[CANDIDATES:]
        below = best.scores[-1] - 1 - np.arange(len(rest), dtype=np.float32)
        return Hits(np.concatenate([best.documents, rest]), np.concatenate([best.scores, below]))
