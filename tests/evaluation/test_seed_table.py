from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from sentemb.data.sts import STS_SETS, ScoredPairs
from sentemb.evaluation import evaluate_pairs
from sentemb.evaluation.records import ResultRecord, record_of
from sentemb.evaluation.seed_table import seed_table


def judged(sets: list[ScoredPairs], model: str, seed: int | None, power: float) -> ResultRecord:
    report = evaluate_pairs(
        lambda texts: np.array([[len(t) ** power, t.count("a"), t.count("e"), 1.0] for t in texts]), sets
    )
    return dataclasses.replace(record_of(report, seed=seed), model=model)


@pytest.fixture
def sets(make_pairs: Callable[..., ScoredPairs]) -> list[ScoredPairs]:
    return [make_pairs(name, "test", (10, 20), seed=seed) for seed, name in enumerate(STS_SETS)]


def test_the_seeds_of_a_method_are_one_row(sets: list[ScoredPairs]) -> None:
    one, two = judged(sets, "mine-seed-1", 1, 1.0), judged(sets, "mine-seed-2", 2, 0.5)
    raw = judged(sets, "raw", None, 2.0)
    table = seed_table([one, raw, two])
    assert table.header == (
        "model",
        "seeds",
        *"STS12 STS13 STS14 STS15 STS16 STS-B".split(),
        "SICK-R 30",
        "average",
    )
    assert [row[:2] for row in table.rows] == [("mine", "2"), ("raw", "–")]
    values = [record.scores("all")["stsb"].spearman for record in (one, two)]
    found = [float(part) for part in table.rows[0][7].split(" ± ")]
    assert found == pytest.approx([np.mean(values), np.std(values, ddof=1)], abs=0.00501)
    assert table.rows[1][7] == f"{raw.scores('all')['stsb'].spearman:.2f}"


def test_a_set_that_one_seed_lacks_is_a_dash(sets: list[ScoredPairs]) -> None:
    whole, part = judged(sets, "mine-seed-1", 1, 1.0), judged(sets[:-1], "mine-seed-2", 2, 0.5)
    (row,) = seed_table([whole, part]).rows
    assert row[-2:] == ("–", "–")
    assert "±" in row[2]


def test_the_figure_of_the_paper_stands_in_the_last_column(sets: list[ScoredPairs]) -> None:
    records = [judged(sets, "mine-seed-1", 1, 1.0), judged(sets, "other", None, 0.5)]
    table = seed_table(records, published={"mine": "74.62"})
    assert table.header[-2:] == ("average", "published")
    assert [row[-1] for row in table.rows] == ["74.62", "–"]


def test_pearson_is_another_table(sets: list[ScoredPairs]) -> None:
    record = judged(sets, "mine", None, 1.0)
    table = seed_table([record], measure="pearson")
    assert table.title.startswith("STS, Pearson")
    assert table.rows[0][2] == f"{record.scores('all')['sts12'].pearson:.2f}"
