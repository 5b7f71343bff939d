"""The evaluator for training: the record's scores, every trainer's contract, and a diverged encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.data.retrieval import RetrievalSet
from sentemb.errors import InputError
from sentemb.evaluation.retrieval import METRICS, RetrievalEvaluator, evaluate_retrieval
from tests.evaluation.retrieval.conftest import make_set


def test_scores_are_those_of_the_record(tiny_encoder: SentenceTransformer, tmp_path: Path) -> None:
    sets = [make_set("mine"), make_set("other", seed=5)]
    evaluator = RetrievalEvaluator(sets, name="dev")
    tiny_encoder.train()
    metrics = evaluator(tiny_encoder, str(tmp_path), epoch=1, steps=20)
    assert tiny_encoder.training
    record = evaluate_retrieval(tiny_encoder, sets)
    for metric in METRICS:
        own = [record.score(one.name, metric) / 100 for one in sets]
        assert metrics[f"dev_{metric}"] == pytest.approx(sum(own) / 2)
        assert metrics[f"dev_other_{metric}"] == pytest.approx(own[1])
    assert evaluator.best_metric_key == "eval_dev_ndcg@10" and evaluator.primary_metric in metrics
    evaluator(tiny_encoder, str(tmp_path), epoch=2, steps=40)
    header, *rows = (tmp_path / "dev_results.csv").read_text().splitlines()
    assert header.startswith("epoch,steps,ndcg@10") and len(rows) == 2


def test_a_diverged_encoder_scores_0(
    tiny_encoder: SentenceTransformer, judged_set: RetrievalSet, caplog: pytest.LogCaptureFixture
) -> None:
    with torch.no_grad():
        next(tiny_encoder.parameters()).fill_(torch.nan)
    metrics = RetrievalEvaluator([judged_set])(tiny_encoder)
    assert {*metrics.values()} == {0.0} and "set to 0.0" in caplog.text


def test_what_cannot_be_evaluated_shows_before_training(shared_data: Path) -> None:
    with pytest.raises(InputError, match="sets must be a list"):
        RetrievalEvaluator("tldr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not have a split 'dev'"):
        RetrievalEvaluator(["cisi"], data_dir=shared_data)
    assert RetrievalEvaluator(["tldr"], data_dir=shared_data).get_config_dict()["queries"] == 413
