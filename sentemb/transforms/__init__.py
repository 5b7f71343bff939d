"""What is fitted on the vectors of a frozen encoder and becomes its last module: whitening and BERT-flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentemb._lazy import lazy_exports

if TYPE_CHECKING:
    from sentemb.transforms.append import add_flow, add_whitening, append_transform
    from sentemb.transforms.config import FlowConfig, flow_config
    from sentemb.transforms.flow import fit_flow
    from sentemb.transforms.whitening import fit_whitening
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "append": ["add_flow", "add_whitening", "append_transform"],
            "config": ["FlowConfig", "flow_config"],
            "flow": ["fit_flow"],
            "whitening": ["fit_whitening"],
        },
    )

__all__ = [
    "FlowConfig",
    "add_flow",
    "add_whitening",
    "append_transform",
    "fit_flow",
    "fit_whitening",
    "flow_config",
]
