"""Runs in TREC's format: what is written is read back in the same order; broken lines are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from sentemb.data.retrieval import RetrievalSet, retrieval_set
from sentemb.errors import InputError
from sentemb.evaluation.retrieval import KeywordSearcher, query_scores, read_run, write_run
from sentemb.evaluation.retrieval.ranking import judged_ranks


def test_a_run_survives_its_file_and_means_the_same_to_trec_eval(
    judged_set: RetrievalSet, tmp_path: Path
) -> None:
    hits = KeywordSearcher().search(judged_set, 20)
    write_run(tmp_path / "runs" / "mine.trec", judged_set, hits, "bm25")
    again = read_run(tmp_path / "runs" / "mine.trec", judged_set)
    assert all(
        np.array_equal(*pair) for one in zip(hits, again, strict=True) for pair in zip(*one, strict=True)
    )
    judgements: dict[str, dict[str, int]] = {}
    for query, document, grade in judged_set.judged.tolist():
        judgements.setdefault(judged_set.query_ids[query], {})[judged_set.document_ids[document]] = grade
    with (tmp_path / "runs" / "mine.trec").open() as file:
        run = pytrec_eval.parse_run(file)
    referee = pytrec_eval.RelevanceEvaluator(judgements, {"ndcg_cut_10"}).evaluate(run)
    scores = query_scores("ndcg@10", judged_ranks(hits, judged_set), judged_set.gold)
    assert scores == pytest.approx([referee[name]["ndcg_cut_10"] for name in judged_set.query_ids], abs=1e-9)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("q0 Q0 d1 1 2.5\n", "line 1: 5 fields"),
        ("q0 Q0 d1 1 2.5 x\nq0 Q0 d1 2 2.0 x\n", "line 2: query 'q0' found 'd1' before"),
        ("q0 Q0 d1 1 high x\n", "line 1: 'high' is no score"),
        ("q0 Q0 d1 1 nan x\n", "line 1: 'nan' is no score"),
        ("\nq0 Q0 other 1 1 x\n", "line 2: mine has no document 'other'"),
        ("other Q0 d1 1 1 x\n", "none of the judged queries of mine"),
    ],
)
def test_a_broken_run_is_refused_with_the_line(
    judged_set: RetrievalSet, tmp_path: Path, lines: str, message: str
) -> None:
    path = tmp_path / "run.trec"
    path.write_text(lines)
    with pytest.raises(InputError, match=message):
        read_run(path, judged_set)


def test_an_id_with_a_space_has_no_place_in_a_run(tmp_path: Path) -> None:
    data = retrieval_set({"a b": "cat"}, {"q": "cat"}, {"q": {"a b": 1}}, name="mine")
    with pytest.raises(InputError, match="'a b' holds a space"):
        write_run(tmp_path / "run.trec", data, KeywordSearcher().search(data, 5), "bm25")
    assert not (tmp_path / "run.trec").exists()
