"""The evaluators: scores of upstream and of records, every trainer's contract, and diverged encoders."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    SequentialEvaluator,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation import RetrievalEvaluator, STSEvaluator, UndefinedScoreError
from sentemb.evaluation.geometry import measure_geometry
from sentemb.evaluation.retrieval import METRICS, evaluate_retrieval
from sentemb.evaluation.sts import encode_sets
from tests.evaluation.conftest import make_pairs
from tests.evaluation.retrieval.conftest import make_set


def test_agrees_with_the_upstream_evaluator(tiny_encoder: SentenceTransformer, pairs: ScoredPairs) -> None:
    evaluator = STSEvaluator(pairs=[pairs])
    ours = evaluator(tiny_encoder)
    upstream = EmbeddingSimilarityEvaluator(pairs.first, pairs.second, [*pairs.gold], name="sts-dev")
    theirs = upstream(tiny_encoder)
    assert list(ours) == ["sts-dev_spearman_cosine", "sts-dev_pearson_cosine"]
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert evaluator.primary_metric == "sts-dev_spearman_cosine" and evaluator.greater_is_better
    assert evaluator.best_metric_key == "eval_sts-dev_spearman_cosine"
    assert tiny_encoder.model_card_data.eval_results_dict[evaluator] == ours
    assert evaluator.get_config_dict() == {"sets": ["mine"], "split": "dev", "protocol": "all", "pairs": 30}


def test_several_sets_give_their_mean_and_each(tiny_encoder: SentenceTransformer) -> None:
    two = [make_pairs("one", seed=1), make_pairs("two", sizes=(10, 10), seed=2)]
    metrics = STSEvaluator(pairs=two, name="")(tiny_encoder)
    each = [metrics[f"{name}_spearman_cosine"] for name in ("one", "two")]
    assert metrics["spearman_cosine"] == pytest.approx(sum(each) / 2)
    alone = STSEvaluator(pairs=two[1:], name="")(tiny_encoder)
    assert alone["spearman_cosine"] == pytest.approx(each[1])


def test_scores_of_retrieval_are_those_of_the_record(
    tiny_encoder: SentenceTransformer, tmp_path: Path
) -> None:
    sets = [make_set("mine"), make_set("other", seed=5)]
    evaluator = RetrievalEvaluator(sets, name="dev")
    tiny_encoder.train()
    for epoch in (1, 2):
        metrics = evaluator(tiny_encoder, str(tmp_path), epoch=epoch, steps=20)
    assert tiny_encoder.training
    record = evaluate_retrieval(tiny_encoder, sets)
    for metric in METRICS:
        own = [record.score(one.name, metric) / 100 for one in sets]
        assert metrics[f"dev_{metric}"] == pytest.approx(sum(own) / 2)
        assert metrics[f"dev_other_{metric}"] == pytest.approx(own[1])
    assert evaluator.best_metric_key == "eval_dev_ndcg@10" and evaluator.primary_metric in metrics
    header, *rows = (tmp_path / "dev_results.csv").read_text().splitlines()
    assert header.startswith("epoch,steps,ndcg@10") and len(rows) == 2


@pytest.mark.parametrize("training", [True, False])
def test_training_mode_and_random_state_are_left_alone(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs, training: bool
) -> None:
    tiny_encoder.train(training)
    tiny_encoder[0].train(not training)  # a frozen part keeps its own mode
    state = torch.get_rng_state()
    first = STSEvaluator(pairs=[pairs])(tiny_encoder)
    assert tiny_encoder.training is training
    assert tiny_encoder[0].training is not training
    assert torch.equal(torch.get_rng_state(), state)
    assert STSEvaluator(pairs=[pairs])(tiny_encoder) == first  # no dropout: the same again


def test_csv_grows_by_a_row_on_the_first_rank(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = STSEvaluator(pairs=[pairs], name="a/b")
    for steps in (10, 20):
        metrics = evaluator(tiny_encoder, str(tmp_path / "eval"), 0.5, steps)
    with (tmp_path / "eval" / evaluator.csv_file).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["epoch", "steps", "spearman_cosine", "pearson_cosine"]
    assert [row[:2] for row in rows[1:]] == [["0.5", "10"], ["0.5", "20"]]
    assert float(rows[2][2]) == metrics["a/b_spearman_cosine"]
    STSEvaluator(pairs=[pairs], write_csv=False)(tiny_encoder, str(tmp_path / "none"))
    monkeypatch.setattr("sentemb.evaluation.evaluator.get_rank", lambda: 1)
    evaluator(tiny_encoder, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_collapsed_and_diverged_encoders_score_zero_with_a_warning(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs, caplog: pytest.LogCaptureFixture, value: float
) -> None:
    for parameter in tiny_encoder.parameters():
        parameter.detach().fill_(value)
    with caplog.at_level(logging.WARNING, logger="sentemb"):
        metrics = STSEvaluator(pairs=[pairs], name="dev", geometry=True)(tiny_encoder)
    geometry = dict([*metrics.items()][2:])
    assert metrics == {"dev_spearman_cosine": 0.0, "dev_pearson_cosine": 0.0, **geometry}
    assert "mine" in caplog.text
    if np.isnan(value):  # vectors that are not finite do not have a geometry
        assert not geometry
        assert {*RetrievalEvaluator([make_set()])(tiny_encoder).values()} == {0.0}
        assert "all its scores are set to 0.0" in caplog.text
    else:
        assert geometry["dev_uniformity"] == pytest.approx(0.0, abs=1e-6)
        assert geometry["dev_anisotropy"] in (pytest.approx(0.0), pytest.approx(1.0))
        assert geometry["dev_effective_rank"] == 0.0


def test_geometry_is_added_to_the_scores(tiny_encoder: SentenceTransformer, pairs: ScoredPairs) -> None:
    plain = STSEvaluator(pairs=[pairs], name="dev")(tiny_encoder)
    metrics = STSEvaluator(pairs=[pairs], name="dev", geometry=True)(tiny_encoder)
    added = ("alignment", "uniformity", "anisotropy", "effective_rank")
    assert list(metrics) == [*plain, *(f"dev_{name}" for name in added)]
    assert plain.items() <= metrics.items()
    expected = measure_geometry(encode_sets(load_encoder(tiny_encoder), [pairs]))
    assert [metrics[f"dev_{name}"] for name in added] == pytest.approx([*expected])


def test_user_errors_show_before_training(tmp_path: Path, shared_data: Path, pairs: ScoredPairs) -> None:
    flat = ScoredPairs("flat", "dev", ["a", "b"], ["c", "d"], np.array([1.0, 1.0]))
    for given, problem in (
        ({"sets": ("stsx",), "data_dir": tmp_path}, "stsx"),
        ({"sets": ("sts12",), "data_dir": tmp_path}, "sts12 does not have a split 'dev'"),
        ({"pairs": []}, "pairs is empty"),
        ({"pairs": [flat]}, "flat dev: the 2 gold scores of flat are all equal"),
    ):
        with pytest.raises(InputError, match=problem):
            STSEvaluator(**given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sets must be a list"):
        RetrievalEvaluator("tldr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not have a split 'dev'"):
        RetrievalEvaluator(["cisi"], data_dir=shared_data)
    assert RetrievalEvaluator(["tldr"], data_dir=shared_data).get_config_dict()["queries"] == 413
    # An encoder that cannot encode is not a collapsed one.
    with pytest.raises(InputError, match=r"shape|vectors") as caught:
        STSEvaluator(pairs=[pairs])(lambda texts: np.ones((1, 7)))  # type: ignore[arg-type]
    assert not isinstance(caught.value, UndefinedScoreError)


def test_best_metric_key_selects_the_best_checkpoint(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs, tmp_path: Path
) -> None:
    evaluator = STSEvaluator(pairs=[pairs])
    trainer = SentenceTransformerTrainer(
        model=tiny_encoder,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=3,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="steps",
            save_steps=1,
            load_best_model_at_end=True,
            metric_for_best_model=evaluator.best_metric_key,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"anchor": pairs.first, "positive": pairs.second}),
        loss=MultipleNegativesRankingLoss(tiny_encoder),
        evaluator=evaluator,
    )
    trainer.train()
    key = evaluator.best_metric_key
    scores = [entry[key] for entry in trainer.state.log_history if key in entry]
    assert len(scores) == 3
    assert trainer.state.best_metric == max(scores)
    assert evaluator(tiny_encoder)[evaluator.primary_metric] == pytest.approx(max(scores), abs=1e-9)
    card = (Path(trainer.state.best_model_checkpoint) / "README.md").read_text()
    assert "Semantic Textual Similarity" in card and "spearman_cosine" in card


def test_works_in_a_sequence_in_model_fit(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs, tmp_path: Path
) -> None:
    from sentence_transformers.sentence_transformer.readers import InputExample
    from torch.utils.data import DataLoader

    both = [STSEvaluator(pairs=[pairs]), STSEvaluator(pairs=[make_pairs(seed=5)], name="two")]
    sequence = SequentialEvaluator(both)
    metrics = sequence(tiny_encoder)
    assert metrics["sequential_score"] == metrics["two_spearman_cosine"]
    texts = zip(pairs.first[:8], pairs.second[:8], strict=True)
    examples = [InputExample(texts=list(one)) for one in texts]
    tiny_encoder.fit(
        train_objectives=[(DataLoader(examples, batch_size=4), MultipleNegativesRankingLoss(tiny_encoder))],
        evaluator=sequence,
        epochs=1,
        warmup_steps=0,
        output_path=str(tmp_path),
        checkpoint_path=str(tmp_path / "checkpoints"),
        show_progress_bar=False,
    )
    assert list(tmp_path.rglob("sts-dev_results.csv"))
