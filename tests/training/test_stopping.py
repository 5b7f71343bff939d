from __future__ import annotations

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from sentemb.errors import InputError
from sentemb.training.stopping import StoppingCallback, StoppingRule, dev_scores


@pytest.mark.parametrize(
    ("scores", "drops", "stale"),
    [
        ([], 0, 0),
        ([0.3], 0, 0),
        ([0.3, 0.4, 0.5], 0, 0),
        ([0.5, 0.4, 0.45, 0.3, 0.6], 2, 0),  # a new best does not reset the counter
        ([0.5, 0.5, 0.5], 0, 2),  # an equal score is no drop, and no improvement
        ([0.2, 0.6, 0.5, 0.4, 0.3], 3, 3),
    ],
)
def test_counters(scores: list[float], drops: int, stale: int) -> None:
    assert StoppingRule("drops").count(scores) == drops
    assert StoppingRule("patience").count(scores) == stale
    assert StoppingRule("none").count(scores) == 0


def test_the_rule_fires_at_its_limit_and_not_before() -> None:
    zigzag = [0.5, 0.4] * 10
    rule = StoppingRule("drops", limit=10)
    assert [rule.fires(zigzag[:n]) for n in (19, 20)] == [False, True]
    assert not StoppingRule("patience", limit=20).fires(zigzag)
    assert not StoppingRule("none", limit=1).fires(zigzag)


def evaluate(callback: StoppingCallback, scores: list[float], metrics: dict[str, float]) -> TrainerControl:
    state = TrainerState(log_history=[{"loss": 1.0}] + [{"eval_score": score} for score in scores])
    control = TrainerControl()
    callback.on_evaluate(TrainingArguments("unused"), state, control, metrics)
    return control


def test_the_callback_reads_the_history() -> None:
    callback = StoppingCallback("eval_score", rule=StoppingRule("drops", limit=1))
    assert not evaluate(callback, [0.1, 0.2], {"eval_score": 0.2}).should_training_stop
    assert evaluate(callback, [0.2, 0.1], {"eval_score": 0.1}).should_training_stop
    assert dev_scores([{"eval_score": 0.2}, {"loss": 3.0}], "eval_score") == [0.2]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_stops_with_a_message(score: float) -> None:
    callback = StoppingCallback("eval_score", rule=StoppingRule())
    with pytest.raises(InputError, match="not a number"):
        evaluate(callback, [score], {"eval_score": score})


def test_an_absent_metric_names_those_that_exist() -> None:
    callback = StoppingCallback("eval_sts_spearman", rule=StoppingRule())
    with pytest.raises(InputError, match="eval_score"):
        evaluate(callback, [], {"eval_score": 1.0})
