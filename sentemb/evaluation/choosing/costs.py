"""What a system costs beside its quality: how fast it reads texts, and how large it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from sentemb.data.bm25 import bm25_weights, count_terms
from sentemb.encoding import TextEncoder, for_role
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.sentence import SentenceEncoder
from sentemb.evaluation.retrieval.hybrid import HybridSearcher
from sentemb.evaluation.retrieval.searchers import DenseSearcher, KeywordSearcher, Searcher
from sentemb.evaluation.timing import time_in_turns

TEXTS = 100
"""Texts that speed is measured on."""
_ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """What a system costs.

    Attributes:
        texts_per_second: Documents that it reads in a second on this machine; None of a searcher of the
            caller's, which does not tell how it reads them.
        megabytes: The size of the model's weights in memory; None where it has none.
        dimension: The length of a vector; None where there is none.
    """

    texts_per_second: float | None
    megabytes: float | None
    dimension: int | None


def costs_of(searchers: Mapping[str, Searcher], texts: Sequence[str], language: str) -> dict[str, Cost]:
    """Measure systems in turns, so that what else the machine does falls on all of them."""
    some = list(dict.fromkeys(texts))[:TEXTS]
    reads = {name: _Read(searcher, some, language) for name, searcher in searchers.items()}
    actions = {name: read for name, read in reads.items() if read.encoder is not None or read.words}
    seconds = time_in_turns(actions, rounds=_ROUNDS, warm_up=1)
    speeds = {name: len(some) / max(median(taken), 1e-9) for name, taken in seconds.items()}
    return {
        name: Cost(speeds.get(name), _megabytes(searcher), searcher.dimension)
        for name, searcher in searchers.items()
    }


class _Read:
    """Read texts as a system does before it can be searched."""

    def __init__(self, searcher: Searcher, texts: Sequence[str], language: str) -> None:
        self.encoder = _encoder(searcher)
        self.words = isinstance(searcher, (KeywordSearcher, HybridSearcher))
        self.texts, self.language = texts, language

    def __call__(self) -> None:
        if self.encoder is not None:
            for_role(self.encoder, "document").encode(self.texts)
        if self.words:
            bm25_weights(count_terms(self.texts, self.language)[0])


def _encoder(searcher: Searcher) -> TextEncoder | None:
    """The encoder without its cache."""
    part = searcher.dense if isinstance(searcher, HybridSearcher) else searcher
    if not isinstance(part, DenseSearcher):
        return None
    return part.encoder.encoder if isinstance(part.encoder, CachedEncoder) else part.encoder


def _megabytes(searcher: Searcher) -> float | None:
    """The weights of a model, each once."""
    encoder = _encoder(searcher)
    if not isinstance(encoder, SentenceEncoder):
        return None
    tensors = {id(one): one for one in chain(encoder.model.parameters(), encoder.model.buffers())}
    size: int = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return size / 1e6
