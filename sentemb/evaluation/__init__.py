"""Judging encoders: the STS suite, an evaluator for training, result records and their export."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.evaluation.evaluator import STSEvaluator
    from sentemb.evaluation.scoring import PROTOCOLS, Protocol, UndefinedScoreError
    from sentemb.evaluation.sts import StsReport, evaluate_pairs, evaluate_sts

__all__ = [
    "PROTOCOLS",
    "Protocol",
    "STSEvaluator",
    "StsReport",
    "UndefinedScoreError",
    "evaluate_pairs",
    "evaluate_sts",
]

_HOMES = {
    "PROTOCOLS": "sentemb.evaluation.scoring",
    "Protocol": "sentemb.evaluation.scoring",
    "STSEvaluator": "sentemb.evaluation.evaluator",
    "StsReport": "sentemb.evaluation.sts",
    "UndefinedScoreError": "sentemb.evaluation.scoring",
    "evaluate_pairs": "sentemb.evaluation.sts",
    "evaluate_sts": "sentemb.evaluation.sts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
