"""Judging encoders: the STS suite, an evaluator for training, result records and their export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.evaluation.evaluator import STSEvaluator
    from sentemb.evaluation.geometry import (
        Geometry,
        alignment,
        anisotropy,
        effective_rank,
        measure_geometry,
        spectrum,
        uniformity,
    )
    from sentemb.evaluation.geometry_intervals import GeometryEstimate, estimate_geometry
    from sentemb.evaluation.measures import PROTOCOLS, Protocol
    from sentemb.evaluation.runner import EvaluationResult, evaluate_all
    from sentemb.evaluation.scoring import UndefinedScoreError
    from sentemb.evaluation.sts import StsReport, evaluate_pairs, evaluate_sts
    from sentemb.evaluation.suites import MULTILINGUAL, STS, Suite, get_suite
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "evaluator": ["STSEvaluator"],
            "runner": ["EvaluationResult", "evaluate_all"],
            "geometry": [
                "Geometry",
                "alignment",
                "anisotropy",
                "effective_rank",
                "measure_geometry",
                "spectrum",
                "uniformity",
            ],
            "geometry_intervals": ["GeometryEstimate", "estimate_geometry"],
            "measures": ["PROTOCOLS", "Protocol"],
            "scoring": ["UndefinedScoreError"],
            "sts": ["StsReport", "evaluate_pairs", "evaluate_sts"],
            "suites": ["MULTILINGUAL", "STS", "Suite", "get_suite"],
        },
    )

__all__ = [
    "MULTILINGUAL",
    "PROTOCOLS",
    "STS",
    "EvaluationResult",
    "Geometry",
    "GeometryEstimate",
    "Protocol",
    "STSEvaluator",
    "StsReport",
    "Suite",
    "UndefinedScoreError",
    "alignment",
    "anisotropy",
    "effective_rank",
    "estimate_geometry",
    "evaluate_all",
    "evaluate_pairs",
    "evaluate_sts",
    "get_suite",
    "measure_geometry",
    "spectrum",
    "uniformity",
]
