"""What a run says at its end: the change from the base, with its interval over the dev pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.data.sts import ScoredPairs
from sentemb.training import Run
from sentemb.training.rows import DevEvaluator


@pytest.mark.parametrize(
    ("score", "interval", "verdict"),
    [
        (0.2987, (0.004, 0.017), "+1.05 (95 % interval +0.40 to +1.70): better than the base"),
        (
            0.2987,
            (-0.002, 0.02),
            "+1.05 (95 % interval -0.20 to +2.00): not significantly different from the base",
        ),
        (0.2782, (-0.02, -0.003), "-1.00 (95 % interval -2.00 to -0.30): worse than the base"),
        (0.2882, None, "+0.00: not significantly different from the base"),
    ],
)
def test_the_verdict_follows_the_interval(
    score: float, interval: tuple[float, float] | None, verdict: str
) -> None:
    run = Run(Path("out"), 1, score, 5, 10, 1.0, base_score=0.2882, interval=interval)
    assert run.verdict() == f"dev Spearman 28.82 (base) -> {100 * score:.2f}, {verdict}"


def test_without_a_base_or_a_dev_set_there_is_little_to_say() -> None:
    assert Run(Path("out"), 1, 0.5, 5, 10, 1.0).verdict() == "dev Spearman 50.00"
    assert Run(Path("out"), 1, None, 5, 10, 1.0).verdict() == ""


def test_the_interval_is_that_of_the_paired_bootstrap() -> None:
    gold = np.linspace(0, 5, 200)
    noise = np.random.default_rng(0).normal(size=(2, 200))
    texts = [str(number) for number in range(200)]
    evaluator = DevEvaluator(ScoredPairs("toy", "dev", texts, texts, gold))
    evaluator.evaluated = {0: gold + 3 * noise[0], 4: gold + noise[1], 8: gold + 3 * noise[0]}
    low, high = evaluator.interval(0, 4) or (0, 0)
    assert 0 < low < high < 1
    assert evaluator.interval(0, 8) == (0, 0)
    assert evaluator.interval(0, 0) is None and evaluator.interval(0, 12) is None
