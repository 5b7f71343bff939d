"""Weights between the base's and the trained ones.

Their mean often finds what was learned and keeps what was known (Wortsman et al.: Robust Fine-Tuning of
Zero-Shot Models. CVPR 2022).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

Weights = Mapping[str, Tensor]


def weights_of(model: SentenceTransformer) -> dict[str, Tensor]:
    """A copy of a model's weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def blend(model: SentenceTransformer, base: Weights, trained: Weights, share: float) -> None:
    """Give a model the base's weights and a share of their change; whole numbers stay the base's."""
    model.load_state_dict(
        {
            name: torch.lerp(tensor, trained[name], share) if tensor.is_floating_point() else tensor
            for name, tensor in base.items()
        }
    )
