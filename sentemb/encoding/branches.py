"""Several ways on from the output of one transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class Branches(nn.Module):
    """Modules that each turn a transformer's output into sentence vectors, which are put side by side."""

    def __init__(self, branches: Sequence[Sequence[nn.Module]]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.ModuleList(branch) for branch in branches)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Go every way."""
        vectors = []
        for branch in self.branches:
            output = dict(features)  # what one way adds is none of the next one's business
            for module in branch:  # type: ignore[attr-defined]
                output = module(output)
            vectors.append(output["sentence_embedding"])
        return {**features, "sentence_embedding": torch.cat(vectors, dim=1)}
