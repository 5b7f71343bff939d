"""A hybrid is never much worse than its better part, says which way it leans, and keeps its weight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from sentemb._fusion import Ranking, fused_ranks
from sentemb.data.retrieval import RetrievalSet, load_retrieval
from sentemb.encoding import load_encoder
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.evaluation.retrieval.ranking import id_places, ranked
from sentemb.evaluation.retrieval.searchers import HybridSearcher, Weights


def noise(texts: list[str]) -> np.ndarray:
    """Knows texts from each other, and nothing of what they say."""
    return np.stack([np.random.default_rng(crc32(text.encode())).normal(size=16) for text in texts])


def letters(texts: list[str]) -> np.ndarray:
    """Counts of letter pairs, hashed: far from BM25, and further from noise."""
    vectors = np.full((len(texts), 512), 1e-3)
    for row, text in zip(vectors, texts, strict=True):
        for start in range(len(text) - 2):
            row[crc32(text[start : start + 3].lower().encode()) % 512] += 1
    return np.asarray(vectors - vectors.mean(axis=0))


@pytest.fixture(scope="module")
def cacm(shared_data: Path) -> RetrievalSet:
    return load_retrieval("cacm", data_dir=shared_data)


@pytest.fixture(scope="module")
def keyword(cacm: RetrievalSet) -> float:
    return evaluate_retrieval("bm25", [cacm]).score("cacm")


def test_a_useless_encoder_costs_less_than_a_point(
    cacm: RetrievalSet, keyword: float, caplog: pytest.LogCaptureFixture
) -> None:
    searcher = HybridSearcher(load_encoder(noise))
    record = evaluate_retrieval(searcher, [cacm, replace(cacm, name="again")])
    assert record.score("cacm") > keyword - 1
    (weight,) = record.details["weights"]["cacm"]
    assert 0.25 <= weight < 0.5
    assert caplog.text.count(f"favors keyword search (dense weight {weight:.2f}): NDCG@10 on 200") == 1


def test_weights_are_fitted_on_the_other_half(
    cacm: RetrievalSet, keyword: float, caplog: pytest.LogCaptureFixture
) -> None:
    searcher = HybridSearcher(load_encoder(letters), "judged")
    record = evaluate_retrieval(searcher, [cacm])
    assert record.model.startswith("hybrid-fitted:")
    assert len(record.details["weights"]["cacm"]) == 2 and not caplog.text
    assert record.score("cacm") > keyword - 1
    # Judgements of a query change the weight of the other half alone: its own hits stay as they are.
    half = np.random.default_rng(0).permutation(len(cacm)) % 2
    ours = np.isin(cacm.judged[:, 0], np.flatnonzero(half == 0))
    judged = cacm.judged.copy()
    judged[ours, 1] = np.random.default_rng(1).integers(0, len(cacm.documents), ours.sum())
    changed = RetrievalSet(**{**vars(cacm), "judged": judged})
    before, after = (searcher.search(data, 10) for data in (cacm, changed))
    for query in np.flatnonzero(half == 0):
        assert np.array_equal(before[query].documents, after[query].documents)


def test_plain_fusion_of_ranks_is_there_for_comparison(judged_set: RetrievalSet) -> None:
    searcher = HybridSearcher(load_encoder(letters), "ranks")
    found = searcher.search(judged_set, 10)
    parts = [part.search(judged_set, 1000) for part in (searcher.dense, searcher.keyword)]
    for hits, own, other in zip(found, *parts, strict=True):
        expected = ranked(*fused_ranks(Ranking(*own), Ranking(*other)), id_places(judged_set), 10)
        assert np.array_equal(hits.documents, expected.documents)


def test_kinds_of_fusion_have_names_and_fingerprints_of_their_own(judged_set: RetrievalSet) -> None:
    kinds: tuple[Weights, ...] = ("cut", "judged", "ranks")
    searchers = [HybridSearcher(load_encoder(letters), kind) for kind in kinds]
    for facts in ("name", "fingerprint"):
        assert len({getattr(one, facts) for one in searchers}) == 3
    assert len({one.describe()["fusion"] for one in searchers}) == 3
    hits = searchers[0].search(judged_set, 100)
    assert all(len(one.documents) == 40 for one in hits)  # what its parts find
