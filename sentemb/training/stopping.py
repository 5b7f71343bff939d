"""When to stop, read off the dev scores alone, so that a resumed run stops where a whole one does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from transformers import TrainerCallback, TrainerControl, TrainerState

from sentemb.errors import InputError

StoppingKind = Literal["drops", "patience", "none"]


@dataclass(frozen=True)
class StoppingRule:
    """A rule over the dev scores so far, the one before the first step included.

    `drops` is the rule of the released SG-BERT code: a counter grows by one whenever a score is lower than
    the *previous* one and is never reset. `patience` counts the evaluations since the best score. `none`
    never stops.

    Args:
        kind: Which rule.
        limit: The count at which training stops.

    Example:
        >>> StoppingRule("drops", limit=3).limit
        3
    """

    kind: StoppingKind = "drops"
    limit: int = 10

    def count(self, scores: Sequence[float]) -> int:
        """The number of drops in dev scores, or of evaluations since their first maximum; 0 for `none`."""
        if self.kind == "none" or not scores:
            return 0
        if self.kind == "drops":
            return sum(later < earlier for earlier, later in pairwise(scores))
        return len(scores) - 1 - scores.index(max(scores))

    def fires(self, scores: Sequence[float]) -> bool:
        """Whether training ends after these dev scores: once the counter has reached the limit."""
        return self.kind != "none" and self.count(scores) >= self.limit


def dev_scores(history: Sequence[dict[str, Any]], metric: str) -> list[float]:
    """Dev scores in a trainer's log history."""
    return [float(entry[metric]) for entry in history if metric in entry]


class StoppingCallback(TrainerCallback):
    """Stops a trainer by a rule, evaluates after the last step, and refuses scores that are not numbers.

    The stock trainer evaluates every so many steps only, and takes NaN for "no better": a short run would
    return its untrained state as the best one, a broken one would end without a word.

    Args:
        metric: The metric's key in the evaluation, with its `eval_` prefix.
        rule: The rule.

    Example:
        >>> callback = StoppingCallback("eval_loss", rule=StoppingRule("drops", limit=3))
    """

    def __init__(self, metric: str, *, rule: StoppingRule) -> None:
        self.metric = metric
        self.rule = rule

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate after the last step, whatever the interval."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        """Check that the new score is there and finite, and apply the rule."""
        if self.metric not in metrics:
            known = ", ".join(sorted(metrics))
            raise InputError(
                f"the evaluation does not have a metric {self.metric!r}", f"choose among {known}"
            )
        if not math.isfinite(metrics[self.metric]):
            raise InputError(
                f"the dev score at step {state.global_step} is not a number",
                "lower the learning rate, or check the dev set for constant scores",
            )
        if self.rule.fires(dev_scores(state.log_history, self.metric)):
            control.should_training_stop = True
