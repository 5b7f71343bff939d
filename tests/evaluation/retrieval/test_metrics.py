"""Every metric equals trec_eval's on runs with ties, missing queries, grades and unjudged documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.errors import InputError
from sentemb.evaluation.retrieval.metrics import METRICS, query_scores

DOCUMENTS = [f"d{number}" for number in range(14)] + ["é", "z", "Z", "\U0001f600", "￿"]
# trec_eval never returns from a query all of whose grades are negative.
GRADES = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 4), min_size=1).filter(
    lambda grades: max(grades.values()) >= 0
)
# Few different scores, so that documents tie; some differ in float64 alone, where trec_eval has float32.
SCORES = st.sampled_from([-1.0, 0.0, 0.5, 0.5 + 1e-12, 1.0, 1e30])
FOUND = st.dictionaries(st.sampled_from(DOCUMENTS), SCORES)
QUERIES = st.lists(st.tuples(GRADES, FOUND), min_size=1, max_size=6)
TREC = {
    "ndcg@10": "ndcg_cut_10",
    "ndcg": "ndcg",
    "ndcg@3": "ndcg_cut_3",
    "mrr": "recip_rank",
    "map": "map",
    "map@5": "map_cut_5",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
    "precision@10": "P_10",
    "hit@10": "success_10",
    "hit@1": "success_1",
}


def ranked(found: dict[str, float]) -> list[str]:
    return sorted(found, key=lambda name: (np.float32(found[name]), name), reverse=True)


def table(queries: list[tuple[dict[str, int], dict[str, float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Ranks and gold of queries, each with its judgements and what was found."""
    ranks, gold = [], []
    for number, (grades, found) in enumerate(queries):
        order = ranked(found)
        ranks += [order.index(name) + 1 if name in order else 0 for name in grades]
        gold += [(number, grade) for grade in grades.values()]
    return np.array(ranks), np.array(gold)


@given(QUERIES)
def test_every_metric_is_trec_evals(queries: list[tuple[dict[str, int], dict[str, float]]]) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec-eval is not installed")
    judgements = {f"q{number}": grades for number, (grades, _) in enumerate(queries)}
    run = {f"q{number}": found for number, (_, found) in enumerate(queries) if found}
    referee = pytrec_eval.RelevanceEvaluator(judgements, set(TREC.values())).evaluate(run)
    ranks, gold = table(queries)
    for metric, measure in TREC.items():
        expected = [referee[name][measure] if name in referee else 0.0 for name in judgements]
        assert query_scores(metric, ranks, gold) == pytest.approx(expected, abs=1e-9), metric


@given(QUERIES)
def test_the_cut_reciprocal_rank_is_that_of_the_first_documents(
    queries: list[tuple[dict[str, int], dict[str, float]]],
) -> None:
    cut = [(grades, {name: found[name] for name in ranked(found)[:3]}) for grades, found in queries]
    ranks, gold = table(cut)
    whole = query_scores("mrr", ranks, gold)
    assert np.array_equal(query_scores("mrr@3", *table(queries)), whole)


def test_a_query_without_results_or_without_relevant_documents_counts_as_0() -> None:
    ranks, gold = np.array([1, 0, 1, 1]), np.array([[0, 1], [1, 1], [2, 0], [3, -1]])
    for metric in METRICS:
        scores = query_scores(metric, ranks, gold)
        assert scores[0] > 0 and not scores[1:].any(), metric


@pytest.mark.parametrize("name", ["ndcg@", "ndcg@0", "precision", "accuracy", "NDCG@10"])
def test_a_metric_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(InputError, match=name):
        query_scores(name, np.array([1]), np.array([[0, 1]]))
