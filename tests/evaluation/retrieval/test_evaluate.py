"""Systems on queries with qrels: the right vectors, records with predictions, comparisons over queries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation import compare, load_predictions, read_record, system_of, to_frame, write_record
from sentemb.evaluation.retrieval import METRICS, evaluate_retrieval, query_scores
from sentemb.evaluation.retrieval.searchers import DenseSearcher
from tests.evaluation.retrieval.conftest import make_set


def test_an_encoder_is_searched_with_its_prompts(
    tiny_encoder: SentenceTransformer, judged_set: RetrievalSet
) -> None:
    tiny_encoder.prompts = {"query": "the dog ", "document": "a man "}
    queries, documents = (
        one / np.linalg.norm(one, axis=1, keepdims=True)
        for one in (
            tiny_encoder.encode_query(judged_set.queries),
            tiny_encoder.encode_document(judged_set.documents),
        )
    )
    hits = DenseSearcher(load_encoder(tiny_encoder)).search(judged_set, 3)
    for scores, found in zip(queries @ documents.T, hits, strict=True):
        assert found.scores == pytest.approx(np.sort(scores)[::-1][:3], abs=1e-5)


def test_equal_documents_tie_and_each_unique_text_is_encoded_once(judged_set: RetrievalSet) -> None:
    seen: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.array([[text.count("a"), text.count("t"), len(text)] for text in texts], dtype=float)

    hits = DenseSearcher(load_encoder(encode)).search(judged_set, 40)
    assert len(seen) == len({*judged_set.documents}) + len({*judged_set.queries})
    for one in hits:
        first, second = (int(np.flatnonzero(one.documents == number)[0]) for number in (0, 1))
        assert one.scores[first] == one.scores[second]
        assert second < first  # d1 before d0


def test_a_record_is_read_again_and_one_with_another_score_is_refused(
    judged_set: RetrievalSet, tmp_path: Path
) -> None:
    record = evaluate_retrieval("bm25", [judged_set, make_set("other", seed=5)])
    path = write_record(record, *load_predictions(record), tmp_path)
    read = read_record(path)
    assert read.scores == record.scores
    assert read.dataset("mine").items == 12
    ranks, gold = (part["mine"] for part in load_predictions(read))
    assert read.score("mine", "recall@10") == 100 * query_scores("recall@10", ranks, gold).mean()
    assert {*to_frame([read])["metric"]} == {*METRICS}
    values = json.loads(path.read_text())
    values["scores"][0]["value"] += 0.01
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="does not match the ndcg@10 of the predictions"):
        read_record(path)


def test_systems_are_compared_over_queries(judged_set: RetrievalSet) -> None:
    sets = [make_set("mine", 200, 80), make_set("other", 200, 80, seed=5)]
    records = [evaluate_retrieval(one, sets) for one in (lambda texts: np.ones((len(texts), 2)), "bm25")]
    first, second = (system_of(records, record.model) for record in records)
    found = compare(first, second)
    assert [one.items for one in found.sets] == [80, 80]
    ranks = [load_predictions(record) for record in records]
    difference = np.mean(
        query_scores("ndcg@10", ranks[1].values["mine"], ranks[1].gold["mine"])
        - query_scores("ndcg@10", ranks[0].values["mine"], ranks[0].gold["mine"])
    )
    assert found.sets[0].size == pytest.approx(100 * difference)
    low, high = found.sets[0].interval or (np.nan, np.nan)
    assert low < 100 * difference < high


def test_a_document_that_is_the_query_itself_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    data = make_set()
    data = RetrievalSet(
        data.name, data.split, data.document_ids, data.documents, ["d0", *data.query_ids[1:]],
        [data.documents[0], *data.queries[1:]], data.judged,
    )  # fmt: skip
    whole = evaluate_retrieval("bm25", [data])
    assert "1 of 12 queries are also documents with the same id and text" in caplog.text
    without = evaluate_retrieval("bm25", [data], exclude_same_ids=True)
    assert (whole.protocol, without.protocol) == ("all-documents", "not-itself")
    assert whole.file_name != without.file_name


def test_bm25_is_between_the_published_figures_without_and_with_stop_words(shared_data: Path) -> None:
    record = evaluate_retrieval("bm25", ["cacm", "xquad-r/zh"], data_dir=shared_data)
    assert 45.4 < record.score("cacm") < 49.3 + 0.6
    assert record.score("cacm", "recall@100") == pytest.approx(70.7, abs=1.5)
    assert record.score("xquad-r/zh") == pytest.approx(82.4, abs=0.8)
