"""Judging an encoder completely: every suite from one encoding, each result a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.everything.run import Judgement, evaluate_all, judge_all
    from sentemb.evaluation.everything.table import SUITES, load_suites
else:
    __getattr__ = lazy_exports(
        __name__,
        {"run": ["Judgement", "evaluate_all", "judge_all"], "table": ["SUITES", "load_suites"]},
    )

__all__ = ["SUITES", "Judgement", "evaluate_all", "judge_all", "load_suites"]
