"""Second stages, late-interaction and sparse models rank as their own library scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SparseEncoder
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from sentemb.data.retrieval import RetrievalSet
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.choosing import choose
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval, retrieval_suite
from sentemb.evaluation.retrieval.naming import model_of, searcher_of
from sentemb.evaluation.retrieval.reranking import RerankSearcher
from sentemb.evaluation.retrieval.searchers import KeywordSearcher
from sentemb.evaluation.retrieval.token_vectors import TokenSearcher
from sentemb.evaluation.runner import Options, run_suites
from sentemb.evaluation.suites import Loaded
from sentemb.report.results import choice_table, tables_of
from tests.evaluation.retrieval.conftest import make_set
from tests.serving.models import cross_encoder


@pytest.fixture(scope="module")
def cross(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return cross_encoder(tiny_bert, tmp_path_factory.mktemp("cross") / "cross")


@pytest.fixture(scope="module")
def sparse(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(tiny_bert)).save_pretrained(folder / "raw")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder / "raw")
    for name, similarity in (("sparse", "dot"), ("cosine", "cosine")):
        model = SparseEncoder(str(folder / "raw"), device="cpu", similarity_fn_name=similarity)
        model.save_pretrained(str(folder / name))
    return folder / "sparse"


@pytest.fixture(scope="module")
def late(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "late"
    torch.manual_seed(0)
    MultiVectorEncoder(str(tiny_bert), device="cpu").save_pretrained(str(folder))
    return folder


def test_a_cross_encoder_ranks_the_first_hundred_again(cross: Path) -> None:
    data = make_set(documents=150, queries=4)
    found = searcher_of(f"rerank:bm25+{cross}", load_encoder, device="cpu").search(data, 1000)
    model = CrossEncoder(str(cross), device="cpu")
    for query, hits, first in zip(data.queries, found, KeywordSearcher().search(data, 1000), strict=True):
        assert len(first.documents) > 100
        expected = model.predict([(query, data.documents[place]) for place in hits.documents[:100].tolist()])
        assert np.all(np.diff(expected) <= 1e-6)
        assert {*hits.documents[:100].tolist()} == {*first.documents[:100].tolist()}
        np.testing.assert_array_equal(hits.documents[100:], first.documents[100:])
        assert np.all(np.diff(hits.scores[99:]) < 0) and np.all(np.diff(hits.scores) <= 0)
        scores = dict(zip(hits.documents.tolist(), hits.scores.tolist(), strict=True))
        assert (0 in scores) == (1 in scores) and scores.get(0) == scores.get(1)  # equal texts


def test_the_time_of_a_second_stage_is_in_the_record_and_the_table(
    cross: Path, judged_set: RetrievalSet
) -> None:
    records = [evaluate_retrieval(one, [judged_set]) for one in ("bm25", f"rerank:bm25+{cross}")]
    assert records[1].model == "rerank:bm25+cross"
    assert records[1].details["milliseconds"][judged_set.name] > 0
    assert records[1].encoder["encoder"] == "BM25"
    assert records[1].encoder["reranked_with"]["candidates"] == 100
    table = next(iter(tables_of(records)))
    assert table.header[:2] == ("system", "ms/query")
    assert table.rows[0][1] == "–" and table.rows[1][1].isdecimal()
    assert next(iter(tables_of(records[:1]))).header[1] == "mine"


def test_sparse_and_late_interaction_models_score_as_their_library(
    sparse: Path, late: Path, judged_set: RetrievalSet
) -> None:
    cosine = sparse.parent / "cosine"
    for folder, build in ((sparse, SparseEncoder), (cosine, SparseEncoder), (late, MultiVectorEncoder)):
        searcher = searcher_of(str(folder), load_encoder, device="cpu")
        assert isinstance(searcher, TokenSearcher) and searcher.name == folder.name
        model = build(str(folder), device="cpu")
        queries = model.encode_query(judged_set.queries)
        expected = model.similarity(queries, model.encode_document(list(judged_set.documents)))
        expected = (expected.to_dense() if expected.is_sparse else expected).numpy()
        for own, hits in zip(expected, searcher.search(judged_set, 1000), strict=True):
            assert len(hits.documents) == 40
            np.testing.assert_allclose(hits.scores, own[hits.documents], rtol=1e-4)
            assert np.all(np.diff(hits.scores) <= 0)
        # As `sentemb eval retrieval` does it.
        suite = Loaded((retrieval_suite([judged_set], Options()),), ())
        record = run_suites(searcher, suite).records["retrieval"]
        assert record.scores == evaluate_retrieval(str(folder), [judged_set]).scores
        assert searcher.describe()["numbers_per_document"] > 0
        assert searcher.fingerprint != searcher_of("bm25", load_encoder).fingerprint


def test_all_kinds_are_chosen_among_and_priced(
    cross: Path, sparse: Path, late: Path, judged_set: RetrievalSet
) -> None:
    systems = ["bm25", f"rerank:bm25+{cross}", str(sparse), f"rerank:{late}+{cross}"]
    choice = choose(systems, judged=judged_set, leaks=(), draws=100)
    costs = {one.name: one.cost for one in choice.candidates}
    assert costs["bm25"].milliseconds is None and costs["sparse"].milliseconds is None
    assert costs["rerank:bm25+cross"].milliseconds and costs["rerank:bm25+cross"].megabytes
    assert costs["rerank:late+cross"].dimension and costs["rerank:late+cross"].dimension % 128 == 0
    assert costs["sparse"].megabytes and costs["sparse"].texts_per_second
    assert choice_table(choice).header[-1] == "ms/query"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("rerank:bm25", r"not of the form rerank:FIRST\+CROSS-ENCODER"),
        ("rerank:bm25+", r"not of the form rerank:FIRST\+CROSS-ENCODER"),
        ("rerank:rerank:bm25+a+b", r"not of the form rerank:FIRST\+CROSS-ENCODER"),
        ("rerank:bm25+static-mini", "static-mini is a sentence encoder.*use a cross-encoder"),
        ("rerank:bm25+./none", "no such model folder"),
        ("hybrid:{sparse}", r"is a sparse encoder.*`sentemb eval retrieval`"),
    ],
)
def test_what_cannot_be_a_system_is_told(name: str, told: str, sparse: Path) -> None:
    with pytest.raises(InputError, match=told):
        searcher_of(name.format(sparse=sparse), load_encoder)


def test_a_second_stage_does_not_hide_what_its_first_cannot_do(cross: Path) -> None:
    with pytest.raises(InputError, match="use hybrid:static-mini"):
        choose([f"rerank:hybrid-fitted:static-mini+{cross}"], ["a text"])


def test_models_of_systems_are_known_before_they_are_loaded(cross: Path, sparse: Path) -> None:
    assert model_of(f"rerank:hybrid:static-mini+{cross}") == "static-mini"
    assert model_of(f"rerank:bm25+{cross}") is None and model_of(str(sparse)) is None
    assert model_of(f"hybrid:{sparse}") == str(sparse)
    with pytest.raises(InputError, match="is a sentence encoder"):
        model_of("rerank:bm25+static-mini")


def test_a_second_stage_has_a_fingerprint_of_both(cross: Path) -> None:
    one = RerankSearcher(KeywordSearcher(), CrossEncoder(str(cross), device="cpu"), name="cross")
    assert one.fingerprint == searcher_of(f"rerank:bm25+{cross}", load_encoder, device="cpu").fingerprint
    assert one.fingerprint != one.first.fingerprint
    assert one.dimension is None
