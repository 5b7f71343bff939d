"""A normalising flow at the end of an encoder: BERT-flow's map from sentence vectors to a standard normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.modules.files import SentembModule

CouplingKind = Literal["additive", "affine"]
"""Effect of a coupling on half of the channels: it shifts them, or shifts and scales them."""
PermutationKind = Literal["reverse", "learned"]
"""Permutation of the channels between couplings: in reverse order, or by a learned matrix in PLU form."""

# Glow trains logarithms of scales three times as fast as they are written.
_LOG_SCALE_FACTOR = 3.0
_KERNEL_DEVIATION = 0.05
_LEAST_DEVIATION = 1e-6  # added to a deviation before it is divided by, so that a constant channel is finite


class FlowModule(SentembModule):
    """An invertible map z = f(x) of sentence vectors under which they are distributed as N(0, I).

    This is Glow on vectors, as in BERT-flow: `levels` times `steps` of actnorm, permutation and coupling.
    After every level except the last, half of the channels are moved to z. All parts of z have the prior N(0,
    I), so that

        log p(x) = log N(z; 0, I) + log |det dz/dx|,    bits(x) = -log p(x) / (ln 2 * dimension)

    and the training objective is the mean of `bits`. BERT-flow compares sentences by the cosine of z. Fit the
    flow with `sentemb.transforms.fit_flow`. Only `sentemb.load` can read a saved folder.

    Args:
        dimension: Length of a sentence vector.
        levels: Number of levels; 3 in BERT-flow's configuration `l3_d3_w32`.
        steps: Number of steps per level; 3 in this configuration.
        width: Width of the hidden layers in the couplings; 32 in this configuration.
        coupling: `additive`, as released, or `affine`.
        permutation: `reverse`, the only effect of the released option "permutation", or `learned`.

    Raises:
        InputError: An option is invalid, or the vectors are too short for the number of levels.

    Example:
        >>> flow = FlowModule(8)
        >>> flow.initialise(torch.randn(32, 8))
        >>> z, log_det = flow.transform(torch.randn(2, 8))
        >>> z.shape, log_det.shape
        (torch.Size([2, 8]), torch.Size([2]))

    Reference:
        Li et al.: On the Sentence Embeddings from Pre-trained Language Models. EMNLP 2020.
        https://aclanthology.org/2020.emnlp-main.733
    """

    config_keys = ["dimension", "levels", "steps", "width", "coupling", "permutation"]  # noqa: RUF012
    initialised: Tensor

    def __init__(
        self,
        dimension: int,
        *,
        levels: int = 3,
        steps: int = 3,
        width: int = 32,
        coupling: CouplingKind = "additive",
        permutation: PermutationKind = "reverse",
    ) -> None:
        super().__init__()
        for name, number in (("levels", levels), ("steps", steps), ("width", width)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise InputError(f"{name} of a flow is {number!r}", "use an integer of at least 1")
        kinds = {"coupling": (coupling, CouplingKind), "permutation": (permutation, PermutationKind)}
        for name, (kind, known) in kinds.items():
            if kind not in get_args(known):
                raise InputError(
                    f"unknown {name} of a flow: {kind!r}", f"choose {' or '.join(get_args(known))}"
                )
        self.dimension, self.levels, self.steps, self.width = dimension, levels, steps, width
        self.coupling, self.permutation = coupling, permutation
        self._channels = [dimension]  # of each level: half of those of the previous level, rounded up
        for _ in range(levels - 1):
            self._channels.append(self._channels[-1] - self._channels[-1] // 2)
        if not isinstance(dimension, int) or self._channels[-1] < 2:
            raise InputError(
                f"vectors of {dimension!r} dimensions cannot be halved for {levels} levels",
                "use fewer levels or vectors with more dimensions",
            )
        self.stages = nn.ModuleList(
            nn.ModuleList(
                FlowStep(channels, width=width, coupling=coupling, permutation=permutation)
                for _ in range(steps)
            )
            for channels in self._channels
        )
        self.register_buffer("initialised", torch.tensor(False))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace `sentence_embedding` (batch, dimension) with z; raise InputError if not fitted."""
        if not self.initialised:
            raise InputError(
                "this flow has not been fitted to any vectors", "create one with sentemb.transforms.fit_flow"
            )
        features["sentence_embedding"] = self.transform(features["sentence_embedding"])[0]
        return features

    def transform(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Map vectors (batch, dimension) to z of the same shape, with log |det dz/dx| of shape (batch,)."""
        log_det = vectors.new_zeros(len(vectors))
        leaving: list[Tensor] = []
        for level, kept in enumerate(self._channels):
            if level:
                leaving.append(vectors[:, kept:])
                vectors = vectors[:, :kept]
            for step in cast("Sequence[FlowStep]", self.stages[level]):
                vectors, change = step(vectors)
                log_det = log_det + change
        return torch.cat([*leaving, vectors], dim=1), log_det

    def log_prob(self, vectors: Tensor) -> Tensor:
        """Compute the log-density of vectors (batch, dimension) in nats, shape (batch,)."""
        latent, log_det = self.transform(vectors)
        normal = -0.5 * (latent.square().sum(dim=1) + self.dimension * math.log(2 * math.pi))
        return normal + log_det

    def bits(self, vectors: Tensor) -> Tensor:
        """Compute the negative log-density in bits per dimension, (batch,); its mean is the objective."""
        return -self.log_prob(vectors) / (math.log(2) * self.dimension)

    @torch.no_grad()
    def initialise(self, vectors: Tensor) -> None:
        """Give every actnorm, those in the couplings too, the shift and scale that normalise these vectors.

        BERT-flow takes the first sentences of its first batch, (batch, dimension). Raise InputError if it was
        done before, or there are fewer than two vectors.
        """
        if self.initialised:
            raise InputError("this flow is already initialized", "create a new flow for other vectors")
        if len(vectors) < 2:
            raise InputError(
                f"cannot compute the variance of {len(vectors)} vector", "initialize with two or more vectors"
            )
        norms = [module for module in self.modules() if isinstance(module, ActNorm)]
        hooks = [norm.register_forward_pre_hook(_fit_to_inputs) for norm in norms]
        try:
            self.transform(vectors)
        finally:
            for hook in hooks:
                hook.remove()
        self.initialised.fill_(True)


def _fit_to_inputs(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    assert isinstance(norm, ActNorm)  # hooked on nothing else
    norm.fit(inputs[0])


class FlowStep(nn.Module):
    """Actnorm, permutation, coupling."""

    def __init__(
        self, channels: int, *, width: int, coupling: CouplingKind, permutation: PermutationKind
    ) -> None:
        super().__init__()
        self.norm = ActNorm(channels)
        self.permutation = LearnedPermutation(channels) if permutation == "learned" else None
        self.coupling = Coupling(channels, width, coupling)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the three layers."""
        normed = self.norm(inputs)
        permuted = normed.flip(1) if self.permutation is None else self.permutation(normed)
        outputs, log_det = self.coupling(permuted)
        log_det = log_det + self.norm.log_det()
        return outputs, log_det if self.permutation is None else log_det + self.permutation.log_det()


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
            *(_kernel(self.first, width), ActNorm(width), nn.ReLU()),
            *(_kernel(width, width), ActNorm(width), nn.ReLU()),
            ScaledLinear(width, outputs if kind == "additive" else 2 * outputs),
        )

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Change the second half."""
        first, second = inputs[:, : self.first], inputs[:, self.first :]
        outputs = self.network(first)
        if self.kind == "additive":
            return torch.cat([first, second + outputs], dim=1), inputs.new_zeros(())
        log_scale = nn.functional.logsigmoid(outputs[:, 1::2] + 2.0)
        return torch.cat([first, (second + outputs[:, 0::2]) * log_scale.exp()], dim=1), log_scale.sum(dim=1)


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
        lower = self.lower.tril(-1) + torch.eye(len(self.lower)).to(self.lower)
        upper = self.upper.triu(1) + torch.diag(self.signs * self.log_diagonal.exp())
        return (inputs @ upper.T @ lower.T)[:, self.order]

    def log_det(self) -> Tensor:
        """Return the log-determinant of the Jacobian."""
        return self.log_diagonal.sum()


def _kernel(inputs: int, outputs: int) -> nn.Linear:
    # Without bias: the actnorm that follows shifts.
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(linear.weight, std=_KERNEL_DEVIATION)
    return linear
