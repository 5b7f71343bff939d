"""How a SentenceTransformer is put together: poolings as native modules, and heads that classify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.modules.encoder import build_encoder
    from sentemb.modules.flow import FlowModule
    from sentemb.modules.heads import ClassificationHead, LinearHead, build_head
    from sentemb.modules.label_attention import LsanHead
    from sentemb.modules.label_fusion import FusionHead, LeamHead
    from sentemb.modules.labels import LabelHead
    from sentemb.modules.loading import load
    from sentemb.modules.poolings import Poolings
    from sentemb.modules.wk_pooling import WKPooling
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "encoder": ["build_encoder"],
            "flow": ["FlowModule"],
            "heads": ["ClassificationHead", "LinearHead", "build_head"],
            "label_attention": ["LsanHead"],
            "label_fusion": ["FusionHead", "LeamHead"],
            "labels": ["LabelHead"],
            "loading": ["load"],
            "poolings": ["Poolings"],
            "wk_pooling": ["WKPooling"],
        },
    )

__all__ = [
    "ClassificationHead",
    "FlowModule",
    "FusionHead",
    "LabelHead",
    "LeamHead",
    "LinearHead",
    "LsanHead",
    "Poolings",
    "WKPooling",
    "build_encoder",
    "build_head",
    "load",
]
