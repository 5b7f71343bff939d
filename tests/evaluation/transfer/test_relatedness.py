"""The trained regression of STS-B and SICK-R: SentEval's, pair by pair and in its record and table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from sentemb.errors import InputError
from sentemb.evaluation.transfer import evaluate_transfer, load_relatedness
from sentemb.evaluation.transfer import relatedness as regressions
from sentemb.evaluation.transfer.objectives import Grades
from sentemb.evaluation.transfer.records import read_transfers, write_transfer
from sentemb.evaluation.transfer.relatedness import SCHEDULE, Related, RelatednessResult, regress
from sentemb.evaluation.transfer.table import relatedness_table, transfer_table
from tests.evaluation.transfer.senteval_loops import grade_targets, regression
from tests.evaluation.transfer.test_records import report, result
from tests.evaluation.transfer.test_suite import counting


def related(rows: int, seed: int) -> Related:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 6))
    noisy = features @ np.arange(6) / 4 + generator.normal(size=rows) + 2.5
    return Related(torch.from_numpy(features), np.clip(noisy, 0, 5).round(1))


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_the_regression_is_that_of_one_pair_at_a_time(float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regressions, "SCHEDULE", replace(SCHEDULE, max_epochs=150))
    train, dev, test = related(100, 0), related(40, 1), related(50, 2)
    measured = regress(train, dev, test, seed=4)
    best, predictions = regression(
        train.features, train.gold, (dev.features, dev.gold), test.features, seed=4, longest=150
    )
    assert np.allclose(measured["predictions"], predictions, atol=1e-8)
    assert measured["dev_pearson"] == round(100 * best, 2)
    assert measured["pearson"] == round(100 * stats.pearsonr(predictions, test.gold).statistic, 2)
    assert measured["spearman"] == round(100 * stats.spearmanr(predictions, test.gold).statistic, 2)
    assert measured["mse"] == round(float(np.mean((predictions - test.gold) ** 2)), 4)


def test_grades_are_distributions_whose_mean_is_the_score() -> None:
    scores = np.array([0.0, 0.4, 1.0, 2.6, 3.0, 4.9, 5.0])
    targets = Grades(scores).targets(torch.arange(7).unsqueeze(0))
    assert torch.allclose(targets[0].T, grade_targets(scores))


def test_the_gradient_is_that_of_the_mean_squared_error() -> None:
    generator = np.random.default_rng(0)
    objective = Grades(generator.uniform(0, 5, size=8), torch.float64)
    logits = torch.from_numpy(generator.normal(size=(1, 2, 5, 8))).requires_grad_()
    targets = objective.targets(torch.arange(8).unsqueeze(0))
    shares = torch.full((1, 8), 1 / 8, dtype=torch.float64)
    for member in logits[0]:
        torch.nn.functional.mse_loss(member.softmax(dim=0), targets[0]).backward(retain_graph=True)
    assert torch.allclose(objective.back(logits.detach(), targets, shares), logits.grad)


def test_constant_predictions_correlate_with_nothing() -> None:
    data = Related(torch.zeros(20, 3), np.linspace(1, 5, 20))
    measured = regress(data, data, data, seed=1)
    assert (measured["pearson"], measured["spearman"], measured["dev_pearson"]) == (0, 0, 0)


def test_pairs_are_in_the_order_of_senteval(shared_data: Path) -> None:
    (parts,) = load_relatedness(["sickr-trained"], data_dir=shared_data).values()
    assert [len(parts[split].gold) for split in ("train", "dev", "test")] == [4500, 500, 4927]
    for pairs in parts.values():
        columns = ([len(text.split()) for text in texts] for texts in (pairs.first, pairs.second))
        keys = list(zip(*columns, pairs.gold.tolist(), strict=True))
        assert keys == sorted(keys)
    with pytest.raises(InputError, match="no task 'stsb'"):
        load_relatedness(["stsb"], data_dir=shared_data)


def test_a_model_is_judged_with_classes_and_grades(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regressions, "SCHEDULE", replace(SCHEDULE, epoch_size=4, max_epochs=0))
    said: list[str] = []
    (judged,) = evaluate_transfer(
        counting, ["sickr-trained"], preset="simcse-fast", data_dir=shared_data, say=said.append
    )
    (one,) = judged.relatedness
    assert judged.results == ()
    assert one.pearson > 30
    assert said[0].startswith("counting sickr-trained seed 1111: Pearson ")
    write_transfer(judged, tmp_path)
    (read,) = read_transfers(tmp_path)
    assert np.array_equal(read.relatedness[0].predictions, one.predictions)
    assert (read.relatedness[0].pearson, read.relatedness[0].mse) == (one.pearson, one.mse)


def test_the_table_of_regressions() -> None:
    def one(pearson: float) -> RelatednessResult:
        return RelatednessResult(
            task="stsb-trained",
            pearson=pearson,
            spearman=70.0,
            mse=1.25,
            dev_pearson=75.0,
            gold=np.ones(2),
            predictions=np.ones(2),
            seconds=1.0,
        )

    reports = [report(seed, result("cr", 80.0)) for seed in (1, 2)]
    for seed, judged in enumerate(reports):
        object.__setattr__(judged, "relatedness", (one(70.0 + 2 * seed),))
    table = relatedness_table(reports)
    assert table.rows == (("org/model", "stsb-trained", "2", "71.00 ± 1.41", "70.00 ± 0.00", "1.25 ± 0.00"),)
    assert transfer_table(reports, "simcse").header[2:] == ("CR", "average")
