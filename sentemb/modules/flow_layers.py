"""Layers of a normalising flow on vectors: each is invertible and computes its log-determinant."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentemb.modules.flow_options import CouplingKind, PermutationKind
from sentemb.modules.flow_permutations import LearnedPermutation, Reversal

# Glow trains logarithms of scales three times as fast as they are written.
_LOG_SCALE_FACTOR = 3.0
_KERNEL_DEVIATION = 0.05
_LEAST_DEVIATION = 1e-6  # added to a deviation before it is divided by, so that a constant channel is finite


class ActNorm(nn.Module):
    """A shift and a scale per channel, `(x + shift) * exp(3 * log_scale)`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.zeros(width))

    @torch.no_grad()
    def fit(self, inputs: Tensor) -> None:
        """Choose shift and scale so that these inputs come out with mean 0 and variance 1."""
        mean = inputs.mean(dim=0)
        deviation = (inputs - mean).square().mean(dim=0).sqrt()
        self.shift.copy_(-mean)
        self.log_scale.copy_(-(deviation + _LEAST_DEVIATION).log() / _LOG_SCALE_FACTOR)

    def forward(self, inputs: Tensor) -> Tensor:
        """Shift and scale the inputs."""
        return (inputs + self.shift) * (_LOG_SCALE_FACTOR * self.log_scale).exp()

    def log_det(self) -> Tensor:
        """Return the log-determinant of the Jacobian, which is the same for every input."""
        return _LOG_SCALE_FACTOR * self.log_scale.sum()

    def inverse(self, outputs: Tensor) -> Tensor:
        """Undo `forward`."""
        return outputs * (-_LOG_SCALE_FACTOR * self.log_scale).exp() - self.shift


class Coupling(nn.Module):
    """The second half of the channels changed by a small network of the first.

    Additive: `x2 + h(x1)`, which keeps the volume. Affine: the even outputs of h are the shift, the odd ones
    the scale, `(x2 + shift) * sigmoid(odd + 2)`. Of an odd number of channels the second half has one more.
    """

    def __init__(self, channels: int, width: int, kind: CouplingKind) -> None:
        super().__init__()
        self.kind = kind
        self.first = channels // 2
        outputs = channels - self.first
        self.network = nn.Sequential(
            _kernel(self.first, width),
            ActNorm(width),
            nn.ReLU(),
            _kernel(width, width),
            ActNorm(width),
            nn.ReLU(),
            ScaledLinear(width, outputs if kind == "additive" else 2 * outputs),
        )

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Change the second half."""
        first, second = inputs[:, : self.first], inputs[:, self.first :]
        shift, log_scale = self._shift_and_log_scale(first)
        if log_scale is None:
            return torch.cat([first, second + shift], dim=1), inputs.new_zeros(())
        return torch.cat([first, (second + shift) * log_scale.exp()], dim=1), log_scale.sum(dim=1)

    def inverse(self, outputs: Tensor) -> Tensor:
        """Undo `forward`."""
        first, second = outputs[:, : self.first], outputs[:, self.first :]
        shift, log_scale = self._shift_and_log_scale(first)
        if log_scale is not None:
            second = second * (-log_scale).exp()
        return torch.cat([first, second - shift], dim=1)

    def _shift_and_log_scale(self, first: Tensor) -> tuple[Tensor, Tensor | None]:
        outputs = self.network(first)
        if self.kind == "additive":
            return outputs, None
        return outputs[:, 0::2], nn.functional.logsigmoid(outputs[:, 1::2] + 2.0)


class ScaledLinear(nn.Module):
    """A linear layer times `exp(3 * log_scale)`, initialised to zero: a new coupling is the identity."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.log_scale = nn.Parameter(torch.zeros(outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer."""
        outputs: Tensor = self.linear(inputs) * (_LOG_SCALE_FACTOR * self.log_scale).exp()
        return outputs


class FlowStep(nn.Module):
    """Actnorm, permutation, coupling."""

    def __init__(
        self, channels: int, *, width: int, coupling: CouplingKind, permutation: PermutationKind
    ) -> None:
        super().__init__()
        self.norm = ActNorm(channels)
        self.permutation: Reversal | LearnedPermutation = (
            Reversal() if permutation == "reverse" else LearnedPermutation(channels)
        )
        self.coupling = Coupling(channels, width, coupling)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the three layers."""
        outputs, log_det = self.coupling(self.permutation(self.norm(inputs)))
        return outputs, log_det + self.norm.log_det() + self.permutation.log_det().to(log_det)

    def inverse(self, outputs: Tensor) -> Tensor:
        """Undo `forward`."""
        return self.norm.inverse(self.permutation.inverse(self.coupling.inverse(outputs)))


def _kernel(inputs: int, outputs: int) -> nn.Linear:
    # Without bias: the actnorm that follows shifts.
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(linear.weight, std=_KERNEL_DEVIATION)
    return linear
