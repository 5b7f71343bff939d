"""Permutations of the channels between the couplings of a flow."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Reversal(nn.Module):
    """Reversal of the channels."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Reverse the channels."""
        return inputs.flip(1)

    def log_det(self) -> Tensor:
        """Return the log-determinant of the Jacobian."""
        return torch.zeros(())

    def inverse(self, outputs: Tensor) -> Tensor:
        """Undo `forward`."""
        return outputs.flip(1)


class LearnedPermutation(nn.Module):
    """An invertible matrix `P L U` with a fixed permutation P, as in Glow's 1x1 convolution.

    It is initialised as a rotation. The diagonal of L is 1 and the signs on the diagonal of U are fixed, so
    the matrix stays invertible.
    """

    order: Tensor
    signs: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        diagonal = upper.diagonal()
        self.register_buffer("order", permutation.argmax(dim=1))  # (P v)[i] = v[order[i]]
        self.register_buffer("signs", diagonal.sign().float())
        self.lower = nn.Parameter(lower.tril(-1).float())
        self.upper = nn.Parameter(upper.triu(1).float())
        self.log_diagonal = nn.Parameter(diagonal.abs().log().float())

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply every row by the matrix."""
        lower, upper = self._factors()
        return (inputs @ upper.T @ lower.T)[:, self.order]

    def log_det(self) -> Tensor:
        """Return the log-determinant of the Jacobian."""
        return self.log_diagonal.sum()

    def inverse(self, outputs: Tensor) -> Tensor:
        """Undo `forward`."""
        lower, upper = self._factors()
        columns = outputs[:, self.order.argsort()].T  # (width, batch)
        columns = torch.linalg.solve_triangular(lower, columns, upper=False, unitriangular=True)
        inputs: Tensor = torch.linalg.solve_triangular(upper, columns, upper=True)
        return inputs.T

    def _factors(self) -> tuple[Tensor, Tensor]:
        lower = self.lower.tril(-1) + torch.eye(len(self.lower)).to(self.lower)
        return lower, self.upper.triu(1) + torch.diag(self.signs * self.log_diagonal.exp())
