"""Training objectives: pure tensor functions and the loss classes built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.losses.owned import OwnedWeights
    from sentemb.losses.self_guided import SelfGuidedLoss
    from sentemb.losses.simcse import SimCSELoss
    from sentemb.losses.view_cache import ViewCache
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "owned": ["OwnedWeights"],
            "self_guided": ["SelfGuidedLoss"],
            "simcse": ["SimCSELoss"],
            "view_cache": ["ViewCache"],
        },
    )

__all__ = ["OwnedWeights", "SelfGuidedLoss", "SimCSELoss", "ViewCache"]
