"""Numbers that are published do not depend on how many threads computed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sentemb._threads import one_blas_thread
from sentemb.data.generated_queries import CutQueries, rank_both
from sentemb.evaluation.geometry import anisotropy, spectrum, uniformity
from sentemb.evaluation.measures import correlate
from sentemb.evaluation.resampling import bootstrap, exchange
from sentemb.evaluation.retrieval.ranking import nearest
from sentemb.search.manifest import calibrate
from sentemb.transforms.fit import fit_whitening

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.standard_normal((1200, 300)).astype(np.float32)
PREDICTIONS = RANDOM.standard_normal((4, 20_000))
GOLD = RANDOM.standard_normal(20_000)


def interval(metric: str) -> list[np.ndarray]:
    draw = np.random.default_rng
    found = bootstrap(metric, PREDICTIONS, GOLD, draws=40, generator=draw(1))
    pairs = [(np.array([0, 1]), np.array([2, 3]))]
    return [found, *exchange(metric, PREDICTIONS, GOLD, pairs, draws=40, generator=draw(1))]


def hits() -> list[Any]:
    blocks = [(np.arange(len(VECTORS)), VECTORS)]
    firsts = places = np.arange(len(VECTORS), dtype=np.int32)
    return nearest(VECTORS[:100], blocks, firsts, places, 20)


def rankings() -> list[Any]:
    texts = [f"text {number}" for number in range(len(VECTORS))]
    cut = CutQueries(texts[:50], texts, list(range(len(texts))))
    return [judged.dense.scores for judged in rank_both(cut, VECTORS[:50], VECTORS, "en")]


NUMBERS: dict[str, Callable[[], Any]] = {
    "spectrum": lambda: spectrum(VECTORS),
    "uniformity": lambda: uniformity(VECTORS),
    "anisotropy": lambda: anisotropy(VECTORS),
    "whitening": lambda: fit_whitening(VECTORS, 64).linear.weight.detach().numpy(),
    "intervals of means": lambda: interval("ndcg@10"),
    "intervals of Pearson": lambda: interval("pearson"),
    "Pearson": lambda: correlate("pearson", GOLD, PREDICTIONS[0]),
    "Spearman": lambda: correlate("spearman", GOLD, PREDICTIONS[0]),
    "search": hits,
    "fusion": rankings,
    "percentiles": lambda: calibrate(len(VECTORS), VECTORS.__getitem__),
}


@pytest.mark.numeric
@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_threads_does_not_reach_the_last_bit(name: str) -> None:
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            found.append(NUMBERS[name]())
    for one in found[1:]:
        np.testing.assert_equal(one, found[0])


def test_the_limit_ends_with_the_function() -> None:
    with threadpool_limits(2, user_api="blas"):
        one_blas_thread()(lambda: None)()
        threads = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
        assert threads == {2}
