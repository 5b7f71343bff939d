"""Training: the trainer, recipes, configurations, runs and their folders."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.training.config import TrainConfig
    from sentemb.training.recipes import RECIPES, Recipe, get_recipe
    from sentemb.training.resolution import resolve
    from sentemb.training.run import SeedSummary, train, train_seeds
    from sentemb.training.session import Interrupted, Run
    from sentemb.training.stopping import StoppingCallback, StoppingRule
    from sentemb.training.trainer import SentembTrainer

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
    "resolve",
    "train",
    "train_seeds",
]

_HOMES = {
    "RECIPES": "recipes",
    "Interrupted": "session",
    "Recipe": "recipes",
    "Run": "session",
    "SeedSummary": "run",
    "SentembTrainer": "trainer",
    "StoppingCallback": "stopping",
    "StoppingRule": "stopping",
    "TrainConfig": "config",
    "get_recipe": "recipes",
    "resolve": "resolution",
    "train": "run",
    "train_seeds": "run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sentemb.training.{_HOMES[name]}"), name)
