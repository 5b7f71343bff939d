"""How BERT-flow is fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from sentemb.errors import InputError
from sentemb.modules.flow_options import CouplingKind, PermutationKind, check_flow_options

OptimizerKind = Literal["adamw", "bert-adam"]
"""`bert-adam` is BERT's own: Adam without bias correction, with decoupled weight decay."""
FlowPreset = Literal["paper", "released"]
"""`paper` is what the paper says where the released code departs from it; see `flow_config`."""


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The flow's shape and its training; defaults are the released configuration `l3_d3_w32`.

    Attributes:
        levels: Levels (l3).
        steps: Steps of a level (d3).
        width: Of the hidden layers in the couplings (w32).
        coupling: `additive` as released; `affine` is the option of its code.
        permutation: `reverse`, which is what the released configuration does; `learned` is Glow's.
        batch_size: Pairs of sentences in a step; released code.
        epochs: Passes over the pairs; released code.
        learning_rate: Constant; released code.
        weight_decay: On every weight of the flow; released code.
        clip: Largest global norm of the gradient; released code.
        optimizer: Bias-corrected AdamW; the released code has BERT's Adam.
        encoder_dropout: Fit on vectors that the encoder gives with dropout, as the released code does unseen.
        seed: Of the flow's weights, the order of the pairs and the dropout.

    Raises:
        InputError: A value does not fit.
    """

    levels: int = 3
    steps: int = 3
    width: int = 32
    coupling: CouplingKind = "additive"
    permutation: PermutationKind = "reverse"
    batch_size: int = 32
    epochs: int = 1
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    clip: float = 1.0
    optimizer: OptimizerKind = "adamw"
    encoder_dropout: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        check_flow_options(
            levels=self.levels,
            steps=self.steps,
            width=self.width,
            coupling=self.coupling,
            permutation=self.permutation,
        )
        # The first sentences of a batch initialise the flow, which takes two.
        if self.batch_size < 2:
            raise InputError(f"batch_size is {self.batch_size}", "give 2 or more")
        if self.epochs < 1:
            raise InputError(f"epochs is {self.epochs}", "give 1 or more")
        for name in ("learning_rate", "clip"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise InputError(f"{name} is {getattr(self, name)}", "give a positive number")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise InputError(f"weight_decay is {self.weight_decay}", "give 0 or a positive number")
        if self.optimizer not in get_args(OptimizerKind):
            raise InputError(
                f"unknown optimizer {self.optimizer!r}", f"choose {' or '.join(get_args(OptimizerKind))}"
            )


PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": MappingProxyType({}),
        "released": MappingProxyType({"optimizer": "bert-adam", "encoder_dropout": True}),
    }
)


def flow_config(preset: FlowPreset = "paper", **changes: Any) -> FlowConfig:
    """Make a configuration from a preset.

    `released` is what bohanli/BERT-flow computes beside the shape of the flow, which is the default anyway:
    BERT's Adam, and an encoder whose dropout was left on. Its input, called the last two layers, is the first
    and the last: that is the pooling `first-last` of the encoder and chosen there. Not kept: pairs are
    shuffled as a whole, not through a buffer of 1,000, and random numbers are torch's.

    Args:
        preset: `paper` or `released`.
        **changes: Fields of `FlowConfig` that differ from it.

    Returns:
        The configuration.

    Raises:
        InputError: There is no such preset or field, or a value does not fit.

    Example:
        >>> flow_config("released", seed=7).optimizer
        'bert-adam'
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}", f"choose {' or '.join(PRESETS)}")
    known = [field.name for field in fields(FlowConfig)]
    if foreign := [name for name in changes if name not in known]:
        raise InputError(f"a flow has no setting {foreign[0]!r}", f"it has {', '.join(known)}")
    return FlowConfig(**{**PRESETS[preset], **changes})
