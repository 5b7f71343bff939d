"""Options of a flow and their checks."""

from __future__ import annotations

from typing import Literal, get_args

from sentemb.errors import InputError

CouplingKind = Literal["additive", "affine"]
"""Effect of a coupling on half of the channels: it shifts them, or shifts and scales them."""
PermutationKind = Literal["reverse", "learned"]
"""Permutation of the channels between couplings: in reverse order, or by a learned matrix in PLU form."""


def check_flow_options(*, levels: int, steps: int, width: int, coupling: str, permutation: str) -> None:
    """Raise InputError if a flow cannot be built with these options."""
    for name, number in (("levels", levels), ("steps", steps), ("width", width)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{name} of a flow is {number!r}", "use an integer of at least 1")
    for name, kind, kinds in (
        ("coupling", coupling, get_args(CouplingKind)),
        ("permutation", permutation, get_args(PermutationKind)),
    ):
        if kind not in kinds:
            raise InputError(f"unknown {name} of a flow: {kind!r}", f"choose {' or '.join(kinds)}")


def channels_of_levels(dimension: int, levels: int) -> list[int]:
    """Count the channels of each level: half of those of the previous level, rounded up."""
    channels = [dimension]
    for _ in range(levels - 1):
        channels.append(channels[-1] - channels[-1] // 2)
    if not isinstance(dimension, int) or channels[-1] < 2:
        raise InputError(
            f"vectors of {dimension!r} dimensions cannot be halved for {levels} levels",
            "use fewer levels or vectors with more dimensions",
        )
    return channels
