"""The weights of many small classifiers and their gradients, as batched matrices.

F folds have P classifiers each, with one layer or two. A fold's rows meet the first layers of all its
classifiers in one product, so rows are read once and not P times. Activations are `(..., units, rows)`, the
transpose of what is usual: then neither this product nor that of the gradient moves the rows or the
weights, and few classes are as fast as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class Network:
    """Classifiers of F folds with P members each, all in one block of memory.

    Args:
        layers: `(out, in)` of one or two layers.
        folds: F.
        members: P.
        dtype: Of the weights.

    Attributes:
        flat: The block.
        weights: Of each layer, `(F, P, out, in)`, views of the block.
        biases: Of each layer, `(F, P, out)`, views of the block.
    """

    def __init__(
        self, layers: Sequence[tuple[int, int]], folds: int, members: int, dtype: torch.dtype
    ) -> None:
        self.layers, self.folds, self.members = list(layers), folds, members
        self.flat = torch.zeros(
            folds * members * sum(out * (width + 1) for out, width in layers), dtype=dtype
        )
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        rest = self.flat
        for out, width in layers:
            weight, rest = rest.tensor_split([folds * members * out * width])
            bias, rest = rest.tensor_split([folds * members * out])
            self.weights.append(weight.view(folds, members, out, width))
            self.biases.append(bias.view(folds, members, out))
        # What the products take, made once: a step is short enough for the making to count.
        self._first = self.weights[0].flatten(1, 2), self.biases[0].flatten(1, 2).unsqueeze(2)
        self._second = self.weights[-1].flatten(0, 1), self.biases[-1].flatten(0, 1).unsqueeze(2)

    @classmethod
    def of(cls, layers: Sequence[nn.Linear], folds: int, members: int) -> Network:
        """Classifiers that all begin with the same weights."""
        sizes = [(layer.out_features, layer.in_features) for layer in layers]
        network = cls(sizes, folds, members, layers[0].weight.dtype)
        for layer, weight, bias in zip(layers, network.weights, network.biases, strict=True):
            weight.copy_(layer.weight.detach())
            bias.copy_(layer.bias.detach())
        return network

    @classmethod
    def joined(cls, parts: Sequence[Network]) -> Network:
        """Networks of the same folds side by side."""
        first = parts[0]
        network = cls(first.layers, first.folds, sum(part.members for part in parts), first.flat.dtype)
        for place, parameter in enumerate(network.parameters):
            torch.cat([part.parameters[place] for part in parts], dim=1, out=parameter)
        return network

    @property
    def parameters(self) -> list[Tensor]:
        """All weights and biases."""
        return [*self.weights, *self.biases]

    def like(self) -> Network:
        """Zeros of the same shapes."""
        return Network(self.layers, self.folds, self.members, self.flat.dtype)

    def select(self, folds: Tensor, members: Tensor) -> Network:
        """Some of the classifiers."""
        chosen = Network(self.layers, len(members), members.shape[1], self.flat.dtype)
        for mine, theirs in zip(chosen.parameters, self.parameters, strict=True):
            mine.copy_(theirs[folds, members])
        return chosen

    def of_fold(self, fold: int) -> Network:
        """One fold."""
        return self.select(torch.tensor([[fold]]), torch.arange(self.members).unsqueeze(0))

    def take(self, fold: int, member: int, other: Network, other_fold: int, other_member: int) -> None:
        """Copy a classifier of another network."""
        for mine, theirs in zip(self.parameters, other.parameters, strict=True):
            mine[fold, member] = theirs[other_fold, other_member]

    def logits(self, features: Tensor) -> Tensor:
        """Scores of the classes."""
        return self._forward(features)[1]

    def differentiate(self, features: Tensor, loss: Callable[[Tensor], Tensor], gradients: Network) -> None:
        """Compute the gradient of every classifier."""
        hidden, logits = self._forward(features)
        back = loss(logits)
        if hidden is not None:
            back = self._second_gradients(hidden, back, gradients)
        torch.sum(back, dim=3, out=gradients.biases[0])
        torch.bmm(back.flatten(1, 2), features, out=gradients._first[0])

    def _forward(self, features: Tensor) -> tuple[Tensor | None, Tensor]:
        weight, bias = self._first
        scores = torch.baddbmm(bias, weight, features.transpose(1, 2))  # (F, P * out, n)
        shape = (self.folds, self.members, -1, features.shape[1])
        if len(self.layers) == 1:
            return None, scores.view(shape)
        hidden = scores.sigmoid_().view(self.folds * self.members, -1, features.shape[1])
        weight, bias = self._second
        return hidden, torch.baddbmm(bias, weight, hidden).view(shape)

    def _second_gradients(self, hidden: Tensor, back: Tensor, gradients: Network) -> Tensor:
        """Take the gradients of the second layer; what goes back to the first, `(F, P, h, n)`."""
        torch.sum(back, dim=3, out=gradients.biases[1])
        flat = back.flatten(0, 1)  # (F * P, C, n)
        torch.bmm(flat, hidden.transpose(1, 2), out=gradients._second[0])
        above = torch.bmm(self._second[0].transpose(1, 2), flat)
        through: Tensor = torch.ops.aten.sigmoid_backward(above, hidden)
        return through.view(self.folds, self.members, *through.shape[1:])
