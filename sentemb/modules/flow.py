"""A normalising flow at the end of an encoder: BERT-flow's map from sentence vectors to a standard normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.modules.flow_layers import ActNorm, FlowStep
from sentemb.modules.flow_options import CouplingKind, PermutationKind, channels_of_levels, check_flow_options
from sentemb.modules.own_module import OwnModule


class FlowModule(OwnModule):
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
        check_flow_options(
            levels=levels, steps=steps, width=width, coupling=coupling, permutation=permutation
        )
        self.dimension = dimension
        self.steps = steps
        self.width = width
        self.coupling = coupling
        self.permutation = permutation
        self._channels = channels_of_levels(dimension, levels)
        self.stages = nn.ModuleList(
            nn.ModuleList(
                FlowStep(channels, width=width, coupling=coupling, permutation=permutation)
                for _ in range(steps)
            )
            for channels in self._channels
        )
        self.register_buffer("initialised", torch.tensor(False))

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self._channels)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace `sentence_embedding` (batch, dimension) with z; raise InputError if not fitted."""
        if not self.initialised:
            raise InputError(
                "this flow has not been fitted to any vectors", "create one with sentemb.transforms.fit_flow"
            )
        features["sentence_embedding"] = self.transform(features["sentence_embedding"])[0]
        return features

    def transform(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Map vectors to z.

        Args:
            vectors: Shape (batch, dimension).

        Returns:
            z of the same shape, and log |det dz/dx| of shape (batch,).
        """
        log_det = vectors.new_zeros(len(vectors))
        leaving: list[Tensor] = []
        for level, kept in enumerate(self._channels):
            if level:
                leaving.append(vectors[:, kept:])
                vectors = vectors[:, :kept]
            for step in self._steps(level):
                vectors, change = step(vectors)
                log_det = log_det + change
        return torch.cat([*leaving, vectors], dim=1), log_det

    def inverse(self, latent: Tensor) -> Tensor:
        """Map z back to the vectors, both of shape (batch, dimension)."""
        following = self._channels[1:]
        leaving = [before - after for before, after in zip(self._channels, following, strict=False)]
        *parts, vectors = torch.split(latent, [*leaving, self._channels[-1]], dim=1)
        for level in reversed(range(self.levels)):
            for step in reversed(self._steps(level)):
                vectors = step.inverse(vectors)
            if level:
                vectors = torch.cat([vectors, parts[level - 1]], dim=1)
        return vectors

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

        Args:
            vectors: Shape (batch, dimension); BERT-flow takes the first sentences of its first batch.

        Raises:
            InputError: It was done before, or there are fewer than two vectors.
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

    def _steps(self, level: int) -> Sequence[FlowStep]:
        return cast("Sequence[FlowStep]", self.stages[level])


def _fit_to_inputs(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    assert isinstance(norm, ActNorm)  # hooked on nothing else
    norm.fit(inputs[0])
