"""What all methods of a study share, so that its table compares methods and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentemb.errors import InputError
from sentemb.evaluation.classification.cell import Method
from sentemb.evaluation.classification.metrics import Paper

# LaCon, section 3.1: one optimization for everything that is compared, the middle of its grids.
_LACON: Mapping[str, Any] = {
    "base": "bert-base-uncased",
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 2e-5,
    "schedule": "linear",
    "warmup": 0.06,
    "weight_decay": 0.0,
    "max_length": 128,
}
# SCL, section 4.1; it does not say how long it trains, with which schedule, and how long texts may be.
_SCL: Mapping[str, Any] = {**_LACON, "base": "roberta-large", "batch_size": 16, "learning_rate": 1e-5}
# What a study decides: its metric, its seeds and where it writes.
_RESERVED = ("metric", "seeds", "output", "recipe")


def shared_settings(paper: Paper | None) -> Mapping[str, Any]:
    """The optimization that all methods of a study have, unless a method's own options say otherwise."""
    return _SCL if paper == "scl" else _LACON


def check_options(method: Method) -> None:
    """Refuse options that the study decides."""
    if taken := [name for name in _RESERVED if name in method.options]:
        hints = {"metric": "name the paper with --paper", "seeds": "give --seeds", "output": "give --output"}
        raise InputError(f"{method.name}: the study decides {taken[0]}", hints.get(taken[0], "leave it out"))
