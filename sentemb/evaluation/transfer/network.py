"""The weights of many small classifiers, their gradients and their optimizer, as batched matrices.

With F folds, P penalties a fold, C classes and h hidden units, the first layer's weights are
`(F, d, P * h)`: the rows of a fold meet the weights of all its classifiers in one product. The second
layer's are `(F * P, h, C)`. Without a hidden layer there is one of `(F, d, P * C)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sentemb.evaluation.transfer.presets import NeuralPreset


@dataclass(eq=False)
class Network:
    """Classifiers of F folds with P penalties each.

    Attributes:
        first: Weights of the first layer, `(F, d, P, out)`.
        first_bias: `(F, P, out)`.
        second: Weights of the second layer, `(F, P, h, C)`; None without a hidden layer.
        second_bias: `(F, P, C)`; None without a hidden layer.
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor | None = None
    second_bias: Tensor | None = None

    @classmethod
    def of(cls, layers: Sequence[nn.Linear], shape: Sequence[int]) -> Network:
        """Classifiers that all begin with the same weights.

        Args:
            layers: One or two layers.
            shape: F and P.

        Returns:
            The network.
        """
        folds, penalties = shape
        weight, bias = layers[0].weight.detach(), layers[0].bias.detach()
        first = weight.T[None, :, None, :].repeat(folds, 1, penalties, 1)
        first_bias = bias.repeat(folds, penalties, 1)
        if len(layers) == 1:
            return cls(first, first_bias)
        weight, bias = layers[1].weight.detach(), layers[1].bias.detach()
        return cls(
            first, first_bias, weight.T.repeat(folds, penalties, 1, 1), bias.repeat(folds, penalties, 1)
        )

    @property
    def parameters(self) -> list[Tensor]:
        """All weights and biases."""
        return [tensor for tensor in vars(self).values() if tensor is not None]

    def logits(self, features: Tensor) -> Tensor:
        """Scores of the classes.

        Args:
            features: `(F, n, d)`.

        Returns:
            `(F, n, P, C)`.
        """
        return self._forward(features)[1]

    def gradients(self, features: Tensor, labels: Tensor, weights: Tensor) -> list[Tensor]:
        """Gradient of the weighted cross-entropy of every classifier.

        Args:
            features: `(F, n, d)`.
            labels: `(F, n)` class numbers.
            weights: `(F, n)` what each row counts.

        Returns:
            The gradients of `parameters`, in their order and shapes.
        """
        hidden, logits = self._forward(features)  # (F, n, P * h) or None, (F, n, P, C)
        back = logits.softmax(dim=3)
        target = labels[:, :, None, None].expand(*logits.shape[:3], 1)
        back.scatter_add_(3, target, torch.full_like(target, -1, dtype=back.dtype))
        back *= weights[:, :, None, None]
        if self.second is None or hidden is None:
            return self._first_gradients(features, back)
        folds, rows, penalties, classes = back.shape
        per_classifier = back.transpose(1, 2).reshape(folds * penalties, rows, classes)
        units = hidden.view(folds, rows, penalties, -1).transpose(1, 2)
        units = units.reshape(folds * penalties, rows, -1)
        second = torch.bmm(units.transpose(1, 2), per_classifier).view(self.second.shape)
        through = torch.bmm(per_classifier, self.second.flatten(0, 1).transpose(1, 2))
        through = through * units * (1 - units)  # of the sigmoid
        through = through.view(folds, penalties, rows, -1).transpose(1, 2)
        return [*self._first_gradients(features, through), second, back.sum(dim=1)]

    def copy(self) -> Network:
        """Weights of their own."""
        return Network(*(tensor.clone() for tensor in self.parameters))

    def select(self, folds: Sequence[int]) -> Network:
        """Some of the folds.

        Args:
            folds: Their places.

        Returns:
            Their classifiers, with weights of their own.
        """
        return Network(*(tensor[list(folds)] for tensor in self.parameters))

    def of_fold(self, fold: int) -> Network:
        """One fold.

        Args:
            fold: Its place.

        Returns:
            Its classifiers, a view.
        """
        return Network(*(tensor[fold : fold + 1] for tensor in self.parameters))

    def take(self, fold: int, other: Network, place: int, penalties: Sequence[int]) -> None:
        """Copy classifiers from another network.

        Args:
            fold: Their fold here.
            other: The network.
            place: Their fold there.
            penalties: Which of them.
        """
        if not penalties:
            return
        chosen = list(penalties)
        self.first[fold][:, chosen] = other.first[place][:, chosen]
        for mine, theirs in zip(self.parameters[1:], other.parameters[1:], strict=True):
            mine[fold][chosen] = theirs[place][chosen]

    def _forward(self, features: Tensor) -> tuple[Tensor | None, Tensor]:
        folds, _, penalties, out = self.first.shape
        bias = self.first_bias.view(folds, 1, penalties * out)
        product = torch.baddbmm(bias, features, self.first.flatten(2))
        if self.second is None or self.second_bias is None:
            return None, product.view(folds, -1, penalties, out)
        hidden = product.sigmoid_()
        units = hidden.view(folds, -1, penalties, out).transpose(1, 2).flatten(0, 1)
        bias = self.second_bias.view(folds * penalties, 1, -1)
        logits = torch.baddbmm(bias, units, self.second.flatten(0, 1))
        return hidden, logits.view(folds, penalties, -1, logits.shape[2]).transpose(1, 2)

    def _first_gradients(self, features: Tensor, back: Tensor) -> list[Tensor]:
        weights = torch.bmm(features.transpose(1, 2), back.flatten(2))
        return [weights.view(self.first.shape), back.sum(dim=1)]


class Optimizer:
    """torch's Adam or RMSprop with a weight decay for each classifier, whose folds can be taken out.

    Args:
        network: The classifiers.
        preset: Which optimizer.
        penalties: `(F, P)` weight decay.
    """

    def __init__(self, network: Network, preset: NeuralPreset, penalties: Tensor) -> None:
        self.network, self.preset = network, preset
        folds, count = penalties.shape
        self.decays = [
            penalties.view(folds, 1, count, 1),
            *(penalties.view(folds, count, *[1] * (tensor.dim() - 2)) for tensor in network.parameters[1:]),
        ]
        self._inner = self._make()

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take a step.

        Args:
            gradients: Of the network's parameters; they are overwritten.
        """
        for parameter, gradient, decay in zip(self.network.parameters, gradients, self.decays, strict=True):
            parameter.grad = gradient.addcmul_(parameter, decay)
        self._inner.step()

    def select(self, folds: Sequence[int], network: Network) -> None:
        """Go on with some of the folds.

        Args:
            folds: Their places.
            network: Their classifiers.
        """
        chosen = list(folds)
        states = [self._inner.state[parameter] for parameter in self.network.parameters]
        self.network = network
        self.decays = [tensor[chosen] for tensor in self.decays]
        self._inner = self._make()
        for parameter, state in zip(network.parameters, states, strict=True):
            # All but the number of steps is as large as the weights.
            kept = {name: value[chosen] if value.dim() else value for name, value in state.items()}
            self._inner.state[parameter] = kept

    def _make(self) -> torch.optim.Optimizer:
        if self.preset.optimizer == "adam":
            # One pass over weights, gradients and moments, which outgrow the caches.
            return torch.optim.Adam(self.network.parameters, lr=self.preset.learning_rate, fused=True)
        return torch.optim.RMSprop(self.network.parameters, lr=self.preset.learning_rate)
