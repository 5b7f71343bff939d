"""torch's Adam and RMSprop for a network, with a weight decay for each classifier."""

from __future__ import annotations

import torch
from torch import Tensor

from sentemb._compat import fused_adam
from sentemb.evaluation.transfer.network import Network
from sentemb.evaluation.transfer.presets import Schedule

_RMSPROP_SMOOTHING, _RMSPROP_EPSILON = 0.99, 1e-8  # torch's defaults


class Optimizer:
    """An optimizer whose classifiers can be taken out while it runs.

    `torch.optim` has one weight decay for a tensor, keeps its state by tensor, and spends more time on a step
    of a small network than the step itself takes.

    Args:
        network: The classifiers; their weights are changed in place.
        schedule: Which optimizer.
        penalties: `(F, P)` weight decay, L2 in the gradient.
    """

    def __init__(self, network: Network, schedule: Schedule, penalties: Tensor) -> None:
        self.network, self.schedule = network, schedule
        self.gradients = network.like()
        self._mean, self._square, self._decay = network.like(), network.like(), network.like()
        for decay in self._decay.parameters:
            decay.copy_(penalties.view(*penalties.shape, *[1] * (decay.dim() - 2)))
        self._steps = torch.zeros(())

    def step(self) -> None:
        """Take a step with `gradients`, which are overwritten."""
        weights, gradients = self.network.flat, self.gradients.flat
        gradients.addcmul_(weights, self._decay.flat)
        square, rate = self._square.flat, self.schedule.learning_rate
        if self.schedule.optimizer == "adam":
            self._steps += 1
            fused_adam(weights, gradients, self._mean.flat, square, self._steps, learning_rate=rate)
            return
        square.mul_(_RMSPROP_SMOOTHING).addcmul_(gradients, gradients, value=1 - _RMSPROP_SMOOTHING)
        weights.addcdiv_(gradients, square.sqrt().add_(_RMSPROP_EPSILON), value=-rate)

    def select(self, folds: Tensor, members: Tensor) -> None:
        """Continue with some of the classifiers."""
        self.network, self._mean, self._square, self._decay = (
            network.select(folds, members)
            for network in (self.network, self._mean, self._square, self._decay)
        )
        self.gradients = self.network.like()
