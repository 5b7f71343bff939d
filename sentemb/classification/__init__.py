"""Classifiers that save and load, and how they are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.classification.classifier import Classifier
    from sentemb.classification.config import ClassifierConfig
    from sentemb.classification.evaluator import ClassifierEvaluator
    from sentemb.classification.files import read_own_labelled, read_own_texts
    from sentemb.classification.fit import ClassifierRun, fit_classifier
    from sentemb.classification.recipes import CLASSIFIER_RECIPES, optimization_of, resolve_classifier
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "classifier": ["Classifier"],
            "config": ["ClassifierConfig"],
            "evaluator": ["ClassifierEvaluator"],
            "files": ["read_own_labelled", "read_own_texts"],
            "fit": ["ClassifierRun", "fit_classifier"],
            "recipes": ["CLASSIFIER_RECIPES", "optimization_of", "resolve_classifier"],
        },
    )

__all__ = [
    "CLASSIFIER_RECIPES",
    "Classifier",
    "ClassifierConfig",
    "ClassifierEvaluator",
    "ClassifierRun",
    "fit_classifier",
    "optimization_of",
    "read_own_labelled",
    "read_own_texts",
    "resolve_classifier",
]
