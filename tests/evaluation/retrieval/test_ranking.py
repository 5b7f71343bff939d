"""Search is exact whatever the block, ties go by id, and run files keep the order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.retrieval import RetrievalSet, load_retrieval, retrieval_set
from sentemb.data.stored_texts import first_places
from sentemb.encoding.nearest import Hits, ranked
from sentemb.errors import InputError
from sentemb.evaluation.retrieval import KeywordSearcher, query_scores, read_run, write_run
from sentemb.evaluation.retrieval.ranking import id_places, judged_ranks, nearest, without_themselves


@pytest.mark.parametrize("block", [1, 7 * 30, 1 << 24])
@pytest.mark.parametrize(("depth", "size"), [(1, 1), (5, 7), (30, 30), (1000, 7)])
def test_the_nearest_are_those_of_a_full_sort(
    block: int, depth: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.encoding.nearest._BLOCK", block)
    generator = np.random.default_rng(0)
    # Whole numbers, so that many products tie and none is rounded.
    queries, unique = (generator.integers(-2, 3, (size, 3)).astype(np.float32) for size in (11, 20))
    rows = generator.integers(0, 20, 30)
    firsts = first_places([str(row) for row in rows])
    numbers = np.flatnonzero(firsts == np.arange(30))
    blocks = [(some, unique[rows[some]]) for some in np.split(numbers, range(size, len(numbers), size))]
    data = retrieval_set({f"d{n}": "x" for n in range(30)}, {"q": "x"}, {"q": {"d0": 1}}, name="mine")
    found = nearest(queries, blocks, firsts, id_places(data), depth)
    for query, hits in zip(queries, found, strict=True):
        scores = unique[rows] @ query
        expected = sorted(range(30), key=lambda n: (scores[n], data.document_ids[n]), reverse=True)[:depth]
        assert hits.documents.tolist() == expected
        assert np.array_equal(hits.scores, scores[expected])
    # Scores that differ in float64 alone tie.
    hits = ranked(np.array([0, 1]), np.array([0.5 + 1e-12, 0.5]), np.array([1, 0], dtype=np.int32), 2)
    assert hits.documents.tolist() == [1, 0]


def test_ranks_of_judged_documents(judged_set: RetrievalSet) -> None:
    judged = judged_set.judged[judged_set.judged[:, 0] == 0, 1]
    other = next(number for number in range(40) if number not in judged)
    order = np.array([judged[2], other, judged[0]], dtype=np.int32)
    nothing = Hits(np.empty(0, np.int32), np.empty(0, np.float32))
    hits = [Hits(order, np.zeros(3, np.float32)), *[nothing] * (len(judged_set) - 1)]
    assert judged_ranks(hits, judged_set).tolist() == [3, 0, 1, 0] + [0] * 44


def test_a_query_does_not_find_itself() -> None:
    data = retrieval_set(
        {"a": "x", "b": "y"}, {"a": "x", "c": "z"}, {"a": {"b": 1}, "c": {"a": 1}}, name="own"
    )
    hits = [Hits(np.array([0, 1], np.int32), np.array([2, 1], np.float32))] * 2
    assert [one.documents.tolist() for one in without_themselves(hits, data, 1)] == [[1], [0]]


def test_a_run_survives_its_file_and_means_the_same_to_trec_eval(
    judged_set: RetrievalSet, tmp_path: Path
) -> None:
    hits = KeywordSearcher().search(judged_set, 20)
    write_run(tmp_path / "runs" / "mine.trec", judged_set, hits, "bm25")
    again = read_run(tmp_path / "runs" / "mine.trec", judged_set)
    assert all(
        np.array_equal(*pair) for one in zip(hits, again, strict=True) for pair in zip(*one, strict=True)
    )
    check_by_trec_eval(judged_set, hits, tmp_path / "runs" / "mine.trec")


@pytest.mark.parametrize("name", ["cisi", "xquad-r/zh"])
def test_real_sets_have_trec_evals_scores(name: str, shared_data: Path, tmp_path: Path) -> None:
    data = load_retrieval(name, data_dir=shared_data)
    hits = KeywordSearcher().search(data, 100)
    write_run(tmp_path / "run.trec", data, hits, "bm25")
    check_by_trec_eval(data, hits, tmp_path / "run.trec")


def check_by_trec_eval(data: RetrievalSet, hits: Sequence[Hits], path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec-eval is not installed")
    judgements: dict[str, dict[str, int]] = {}
    for query, document, grade in data.judged.tolist():
        judgements.setdefault(data.query_ids[query], {})[data.document_ids[document]] = grade
    with path.open() as file:
        run = pytrec_eval.parse_run(file)
    measures = {"ndcg@10": "ndcg_cut_10", "map": "map", "recall@100": "recall_100", "precision@10": "P_10"}
    referee = pytrec_eval.RelevanceEvaluator(judgements, {*measures.values()}).evaluate(run)
    for metric, measure in measures.items():
        expected = [referee.get(name, {}).get(measure, 0.0) for name in data.query_ids]
        scores = query_scores(metric, judged_ranks(hits, data), data.gold)
        assert scores == pytest.approx(expected, abs=1e-9), metric


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("q0 Q0 d1 1 2.5\n", "line 1: expected six fields, found 5"),
        ("q0 Q0 d1 1 2.5 x\nq0 Q0 d1 2 2.0 x\n", "line 2: document 'd1' is listed twice for query 'q0'"),
        ("q0 Q0 d1 1 high x\n", "line 1: the score 'high' is not a number"),
        ("q0 Q0 d1 1 nan x\n", "line 1: the score 'nan' is not a number"),
        ("\nq0 Q0 other 1 1 x\n", "line 2: mine does not contain a document 'other'"),
        ("other Q0 d1 1 1 x\n", "does not contain any query of mine"),
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
    with pytest.raises(InputError, match="'a b' contains a space"):
        write_run(tmp_path / "run.trec", data, KeywordSearcher().search(data, 5), "bm25")
    assert not (tmp_path / "run.trec").exists()
