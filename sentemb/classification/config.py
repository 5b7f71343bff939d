"""The configuration of a classifier's training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sentemb.errors import InputError
from sentemb.modules.heads import HEADS
from sentemb.training.config import OptionValue, RunConfig, require
from sentemb.training.values import unknown

Metric = Literal["accuracy", "macro_f1", "f1", "matthews"]
"""Chooses the best checkpoint; `f1` is that of the second of two classes."""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(RunConfig):
    """Everything but the data that decides the weights of a classifier, and where they go.

    A loss that takes a head trains it together with the encoder. Any other loss trains the encoder alone, and
    a linear head is then fitted on the frozen encoder: the second stage of SupCL-Seq.

    Args:
        head: Kind of the head, see `sentemb.modules.heads.HEADS`.
        head_options: Arguments of the head beside its width and classes.
        probe_options: Arguments of `ProbeOptions`, for the second stage.
        self_supervised: Hide the labels from the loss, for which each text and its views are then a class of
            their own; only the second stage sees them.
        metric: Metric of the validation set that chooses the weights.
        eval_steps: Optimizer steps between two evaluations, and between two checkpoints; None is once per
            epoch.

    Raises:
        InputError: A value has the wrong type or lies outside its range.
    """

    head: str = "linear"
    head_options: Mapping[str, OptionValue] = field(default_factory=dict)
    probe_options: Mapping[str, OptionValue] = field(default_factory=dict)
    self_supervised: bool = False
    metric: Metric = "accuracy"
    eval_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require("eval_steps", self.eval_steps, at_least=1)
        if self.head not in HEADS:
            raise unknown("head", self.head, HEADS)
        if taken := {"kind", "width", "classes"} & self.head_options.keys():
            raise InputError(f"head_options name {min(taken)}", "encoder and data decide it")

    __hash__ = RunConfig.__hash__
