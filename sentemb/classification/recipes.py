"""Names of an earlier interface, until their last callers are gone."""

from __future__ import annotations

from sentemb.training.recipes import optimization_of, recipes_of
from sentemb.training.settings import resolve as resolve_classifier

__all__ = ["CLASSIFIER_RECIPES", "optimization_of", "resolve_classifier"]

CLASSIFIER_RECIPES = recipes_of("classification")
