"""Looking into encoders: what their layers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.analysis.layers import LayerMap, LayerScores, layer_map
else:
    __getattr__ = lazy_exports(__name__, {"layers": ["LayerMap", "LayerScores", "layer_map"]})

__all__ = ["LayerMap", "LayerScores", "layer_map"]
