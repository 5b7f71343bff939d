"""Custom modules, which a saved model of sentemb can contain in addition to upstream's, and their loading.

sentence-transformers imports third-party modules only with `trust_remote_code=True`, which would run any code
that the folder names. Here the folder can only choose among these classes, and none of its code runs.
"""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import load_with_module_classes
from sentemb.modules.exported import exported_networks
from sentemb.modules.flow import FlowModule
from sentemb.modules.layer_pooling import LayerPooling
from sentemb.modules.rounding import RoundedVectors
from sentemb.modules.wk_pooling import WKPooling

CUSTOM_MODULES: tuple[type[nn.Module], ...] = (FlowModule, LayerPooling, RoundedVectors, WKPooling)
"""Modules that plain sentence-transformers does not have."""


def open_model(address: str, **options: Any) -> SentenceTransformer:
    """Load a sentence-transformers model that can contain modules of sentemb."""
    classes = {f"{module.__module__}.{module.__qualname__}": module for module in CUSTOM_MODULES}
    with exported_networks(address):
        return load_with_module_classes(address, classes, **options)
