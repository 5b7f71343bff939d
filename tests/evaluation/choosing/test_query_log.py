from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.retrieval import RetrievalSet
from sentemb.errors import InputError
from sentemb.evaluation.choosing.calibration import Evidence
from sentemb.evaluation.choosing.questions import log_weights, read_query_log

TEXTS = [f"common words and rare{number} of document {number}" for number in range(60)]


def generated(queries: list[str]) -> RetrievalSet:
    names = [str(number) for number in range(len(queries))]
    return RetrievalSet("quote", "generated", names, TEXTS, names, queries, np.empty((0, 3), dtype=np.int64))


def test_queries_like_those_of_the_log_weigh_more() -> None:
    short, long = "rare3 document", "common words common words common words rare3 document common words"
    data = generated([short, long])
    by_short = log_weights(["rare1 document", "rare2 words"] * 10, [data], TEXTS)["quote"]
    by_long = log_weights(
        ["common words of common words common document common words rare5"] * 20, [data], TEXTS
    )
    assert by_short.sum() == pytest.approx(1) and by_short[0] > 2 * by_short[1]
    assert by_long["quote"][1] > 2 * by_long["quote"][0]
    rare, common = log_weights(["rare1", "rare2"] * 10, [generated(["rare3", "common"])], TEXTS)["quote"]
    assert rare > common > 0  # no query is dropped


def test_weighted_evidence_is_a_weighted_mean_and_covariance() -> None:
    scores = np.random.default_rng(0).uniform(0, 100, (3, 40))
    weights = np.random.default_rng(1).uniform(0.1, 1, 40)
    weights /= weights.sum()
    found = Evidence.of(("keyword", "static", "hybrid"), {"quote": scores}, {"quote": weights})
    means = (scores * weights).sum(axis=1)
    assert found.means["quote"] == pytest.approx(means)
    for first in range(3):
        for second in range(3):
            value = (weights * (scores[first] - means[first]) * (scores[second] - means[second])).sum()
            assert found.spreads["quote"][first, second] == pytest.approx(value)


def test_a_log_is_a_query_a_line(write_file: Callable[[str, str], Path]) -> None:
    lines = [f"query {number}" for number in range(25)]
    file = write_file("log.txt", "\ufeff" + "\n\n".join(lines) + "\n")
    assert read_query_log(file) == lines == read_query_log(lines)
    with pytest.raises(InputError, match=r"few\.txt: 3 queries are too few"):
        read_query_log(write_file("few.txt", "a\nb\nc\n"))
    with pytest.raises(InputError, match="no such file"):
        read_query_log("missing.txt")
