"""Training objectives: pure tensor functions and the loss classes built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentemb.losses.owned import OwnedWeights
    from sentemb.losses.self_guided import SelfGuidedLoss
    from sentemb.losses.simcse import SimCSELoss
    from sentemb.losses.view_cache import ViewCache

__all__ = ["OwnedWeights", "SelfGuidedLoss", "SimCSELoss", "ViewCache"]

_HOMES = {
    "OwnedWeights": "sentemb.losses.owned",
    "SelfGuidedLoss": "sentemb.losses.self_guided",
    "SimCSELoss": "sentemb.losses.simcse",
    "ViewCache": "sentemb.losses.view_cache",
}


def __getattr__(name: str) -> Any:
    # Losses import torch and transformers: `import sentemb.losses` alone must not.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
