"""Training: the trainer, recipes, configurations, runs and their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.training.config import TrainConfig
    from sentemb.training.outcome import Interrupted, Run
    from sentemb.training.recipes import RECIPES, Recipe, get_recipe
    from sentemb.training.resolution import resolve
    from sentemb.training.run import SeedSummary, train, train_seeds
    from sentemb.training.settings import parse_settings, split_settings
    from sentemb.training.stopping import StoppingCallback, StoppingRule
    from sentemb.training.trainer import SentembTrainer
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "config": ["TrainConfig"],
            "outcome": ["Interrupted", "Run"],
            "recipes": ["RECIPES", "Recipe", "get_recipe"],
            "resolution": ["resolve"],
            "run": ["SeedSummary", "train", "train_seeds"],
            "settings": ["parse_settings", "split_settings"],
            "stopping": ["StoppingCallback", "StoppingRule"],
            "trainer": ["SentembTrainer"],
        },
    )

__all__ = [
    "RECIPES",
    "Interrupted",
    "Recipe",
    "Run",
    "SeedSummary",
    "SentembTrainer",
    "StoppingCallback",
    "StoppingRule",
    "TrainConfig",
    "get_recipe",
    "parse_settings",
    "resolve",
    "split_settings",
    "train",
    "train_seeds",
]
