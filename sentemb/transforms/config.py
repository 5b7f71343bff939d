"""How BERT-flow is fitted: presets of its configuration."""

from __future__ import annotations

from typing import Any, Literal

from sentemb.errors import InputError
from sentemb.training.config import FlowConfig
from sentemb.training.recipes import get_recipe

__all__ = ["FlowConfig", "FlowPreset", "flow_config"]

FlowPreset = Literal["paper", "released"]


def flow_config(preset: FlowPreset = "paper", **changes: Any) -> FlowConfig:
    """Make a configuration from a preset of the recipe `flow`.

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
    if preset not in ("paper", "released"):
        raise InputError(f"unknown preset {preset!r}", "use paper or released")
    told = get_recipe("flow").values(preset)
    return FlowConfig(
        **{name: value for name, value in told.items() if name in FlowConfig.model_fields} | changes
    )
