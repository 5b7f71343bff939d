"""SentEval's own classifiers, many of them at once.

SentEval trains a classifier for each fold and each penalty, one after the other: over 400 for a task, whose
steps cost far more in overhead than in arithmetic. Here the classifiers of several folds and all penalties
take their steps together, and several such groups run at once on the cores. Each classifier has the rows,
the order of rows, the first weights and the stopping rule that it would have alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from threading import Event

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from sentemb._compat import fused_adam
from sentemb._threads import one_thread_each
from sentemb.evaluation.transfer.tasks import NeuralPreset, Rows

Floats = npt.NDArray[np.float64]

_FOLDS = 10  # most folds of a group: by then a step's overhead is small compared with its arithmetic
# About so many weights in a group. With more, the overhead is small with fewer folds too, and fewer folds
# wait for the one that needs most.
_WEIGHTS = 2**19
_RMSPROP_SMOOTHING, _RMSPROP_EPSILON = 0.99, 1e-8  # torch's defaults


class Network:
    """The weights of small classifiers of F folds with P members each, views of one block of memory.

    A fold's rows meet the first layers of all its classifiers in one product, so rows are read once and not P
    times. Activations are `(..., units, rows)`, the transpose of what is usual: then neither this product nor
    that of the gradient moves the rows or the weights, and few classes are as fast as many.
    """

    def __init__(
        self, layers: Sequence[tuple[int, int]], folds: int, members: int, dtype: torch.dtype
    ) -> None:
        self.layers, self.folds, self.members = list(layers), folds, members
        size = folds * members
        self.flat = torch.zeros(size * sum(out * (width + 1) for out, width in layers), dtype=dtype)
        self.weights: list[Tensor] = []  # of each layer, (F, P, out, in)
        self.biases: list[Tensor] = []  # of each layer, (F, P, out)
        rest = self.flat
        for out, width in layers:
            weight, rest = rest.tensor_split([size * out * width])
            bias, rest = rest.tensor_split([size * out])
            self.weights.append(weight.view(folds, members, out, width))
            self.biases.append(bias.view(folds, members, out))
        # The operands of the products, made once: a step is short enough for the making to count.
        self._first = self.weights[0].flatten(1, 2), self.biases[0].flatten(1, 2).unsqueeze(2)
        self._second = self.weights[-1].flatten(0, 1), self.biases[-1].flatten(0, 1).unsqueeze(2)

    @property
    def parameters(self) -> list[Tensor]:
        """All weights and biases."""
        return [*self.weights, *self.biases]

    @classmethod
    def of(cls, layers: Sequence[nn.Linear], folds: int, members: int) -> Network:
        """Return classifiers that all begin with the same weights."""
        sizes = [(layer.out_features, layer.in_features) for layer in layers]
        network = cls(sizes, folds, members, layers[0].weight.dtype)
        for layer, weight, bias in zip(layers, network.weights, network.biases, strict=True):
            weight.copy_(layer.weight.detach())
            bias.copy_(layer.bias.detach())
        return network

    def like(self) -> Network:
        """Return zeros of the same shapes."""
        return Network(self.layers, self.folds, self.members, self.flat.dtype)

    def select(self, folds: Tensor, members: Tensor) -> Network:
        """Return some of the classifiers."""
        chosen = Network(self.layers, len(members), members.shape[1], self.flat.dtype)
        for mine, theirs in zip(chosen.parameters, self.parameters, strict=True):
            mine.copy_(theirs[folds, members])
        return chosen

    def of_fold(self, fold: int) -> Network:
        """Return one fold."""
        return self.select(torch.tensor([[fold]]), torch.arange(self.members).unsqueeze(0))

    def logits(self, features: Tensor) -> Tensor:
        """Return scores of the classes, `(F, P, C, n)`."""
        return self._forward(features)[1]

    def differentiate(self, features: Tensor, targets: Tensor, shares: Tensor, gradients: Network) -> None:
        """Compute the gradient of every classifier's cross-entropy; `shares` are the rows' in the mean."""
        hidden, logits = self._forward(features)
        back = logits.softmax(dim=2)
        back -= targets.unsqueeze(1)
        back *= shares[:, None, None, :]
        if hidden is not None:
            torch.sum(back, dim=3, out=gradients.biases[1])
            flat = back.flatten(0, 1)  # (F * P, C, n)
            torch.bmm(flat, hidden.transpose(1, 2), out=gradients._second[0])
            above = torch.bmm(self._second[0].transpose(1, 2), flat)
            through: Tensor = torch.ops.aten.sigmoid_backward(above, hidden)
            back = through.view(self.folds, self.members, *through.shape[1:])  # (F, P, h, n)
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


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of classifiers that differ in their penalties alone."""

    train: Rows  # rows to train on, in the order that the first permutation is applied to
    dev: Rows  # rows that stop the training and choose the weights
    penalties: tuple[float, ...]  # weight decay of each classifier
    generator: np.random.RandomState  # of the orders of rows

    @classmethod
    def seeded(cls, train: Rows, dev: Rows, penalties: tuple[float, ...], seed: int) -> Fold:
        """Return a fold with given rows."""
        return cls(train, dev, penalties, np.random.RandomState(seed))

    @classmethod
    def divided(cls, rows: Rows, penalties: tuple[float, ...], seed: int, *, share: float) -> Fold:
        """Return a fold of rows of which a random share stops the training."""
        generator = np.random.RandomState(seed)
        order = generator.permutation(len(rows))
        held = int(share * len(rows))
        return cls(rows[order[held:]], rows[order[:held]], penalties, generator)


@dataclass(frozen=True, eq=False)
class Trained:
    """The classifiers of a fold."""

    scores: Floats  # `(penalties,)` best score of each on the fold's dev rows; accuracies are fractions
    network: Network  # the kept weights

    def predict(self, features: Tensor) -> npt.NDArray[np.int64]:
        """Return the classes of rows, `(penalties, n)`."""
        return np.asarray(self.network.logits(features.unsqueeze(0))[0].argmax(dim=1).numpy())


class _Group:
    """Classifiers of folds with equally many steps an epoch, which take their steps together."""

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        folds: Sequence[Fold],
        schedule: NeuralPreset,
        start: Sequence[nn.Linear],
    ) -> None:
        self.features, self.labels, self.folds, self.schedule = features, labels, folds, schedule
        self.classes = torch.arange(start[-1].out_features).unsqueeze(1)
        penalties = torch.tensor([fold.penalties for fold in folds])  # (folds, penalties)
        self.network, self.best = (Network.of(start, *penalties.shape) for _ in range(2))
        # torch.optim has one weight decay for a tensor, keeps its state by tensor, and spends more time on a
        # step of a small network than the step itself takes.
        self.mean, self.square, self.decay, self.gradients = (self.network.like() for _ in range(4))
        for decay in self.decay.parameters:
            decay.copy_(penalties.view(*penalties.shape, *[1] * (decay.dim() - 2)))
        self.steps = torch.zeros(())
        self.scores = np.full(penalties.shape, -1.0)
        self.misses = np.zeros(penalties.shape, dtype=int)
        self.ended = np.zeros(penalties.shape, dtype=bool)
        # Of what the network still holds: the folds, and which classifier of its fold stands in each place.
        self.running = np.arange(len(folds))
        self.places = np.tile(np.arange(penalties.shape[1]), (len(folds), 1))
        # The share of each row of an epoch in the mean of its batch; 0 for padding.
        self.shares = torch.zeros(len(folds), max(len(fold.train) for fold in folds))
        for row, fold in zip(self.shares, folds, strict=True):
            for batch in row[: len(fold.train)].split(schedule.batch_size):
                batch.fill_(1 / len(batch))

    @torch.inference_mode()
    def train(self, stop: Event) -> list[Trained]:
        epochs = 0
        while len(self.running) and epochs <= self.schedule.max_epochs and not stop.is_set():
            for _ in range(self.schedule.epoch_size):
                self._run_epoch()
            epochs += self.schedule.epoch_size
            for place, index in enumerate(self.running.tolist()):
                self._validate(place, index)
            self._remove_ended()
        return [Trained(self.scores[index], self.best.of_fold(index)) for index in range(len(self.folds))]

    def _run_epoch(self) -> None:
        size, shares = self.schedule.batch_size, self.shares[self.running]
        rows = np.zeros(shares.shape, dtype=np.int64)  # padding has a share of 0
        for row, index in zip(rows, self.running.tolist(), strict=True):
            fold = self.folds[index]
            row[: len(fold.train)] = fold.train[fold.generator.permutation(len(fold.train))]
        order = torch.from_numpy(rows)
        parts = (order, (self.labels[order].unsqueeze(1) == self.classes).float(), shares)
        for batch, wanted, counts in zip(*(torch.split(part, size, dim=-1) for part in parts), strict=True):
            features = nn.functional.embedding(batch, self.features)
            self.network.differentiate(features, wanted, counts, self.gradients)
            self._step()

    def _step(self) -> None:
        """Take a step of Adam or RMSprop with the gradients, which are overwritten."""
        weights, gradients = self.network.flat, self.gradients.flat
        gradients.addcmul_(weights, self.decay.flat)
        square, rate = self.square.flat, self.schedule.learning_rate
        if self.schedule.optimizer == "adam":
            self.steps += 1
            fused_adam(weights, gradients, self.mean.flat, square, self.steps, learning_rate=rate)
            return
        square.mul_(_RMSPROP_SMOOTHING).addcmul_(gradients, gradients, value=1 - _RMSPROP_SMOOTHING)
        weights.addcdiv_(gradients, square.sqrt().add_(_RMSPROP_EPSILON), value=-rate)

    def _validate(self, place: int, index: int) -> None:
        rows = torch.from_numpy(self.folds[index].dev)
        features = self.features.index_select(0, rows).unsqueeze(0)
        logits = self.network.of_fold(place).logits(features)[0]
        right = (logits.argmax(dim=1) == self.labels[rows]).sum(dim=1)
        scores = np.asarray(right.numpy() / len(rows))
        for member, penalty in enumerate(self.places[place].tolist()):
            if self.ended[index, penalty]:
                continue
            if scores[member] > self.scores[index, penalty]:
                self.scores[index, penalty] = scores[member]
                for mine, theirs in zip(self.best.parameters, self.network.parameters, strict=True):
                    mine[index, penalty] = theirs[place, member]
            else:
                self.ended[index, penalty] = self.misses[index, penalty] >= self.schedule.tenacity
                self.misses[index, penalty] += 1

    def _remove_ended(self) -> None:
        """Take out what has ended; all folds keep as many classifiers as the one that needs most."""
        ended = np.take_along_axis(self.ended[self.running], self.places, axis=1)
        folds = np.flatnonzero(~ended.all(axis=1))
        width = int((~ended).sum(axis=1).max())
        if (len(folds), width) != self.places.shape and len(folds):
            members = np.argsort(ended[folds], axis=1, kind="stable")[:, :width]
            chosen = torch.from_numpy(folds).unsqueeze(1), torch.from_numpy(members)
            parts = (self.network, self.mean, self.square, self.decay)
            self.network, self.mean, self.square, self.decay = (one.select(*chosen) for one in parts)
            self.gradients = self.network.like()
            self.places = np.take_along_axis(self.places[folds], members, axis=1)
        self.running = self.running[folds]


def train_folds(
    features: Tensor, labels: Tensor, folds: Sequence[Fold], schedule: NeuralPreset, *, seed: int
) -> list[Trained]:
    """Train the classifiers of all folds, which have equally many penalties, on features `(n, d)`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [features.shape[1], *([schedule.hidden] if schedule.hidden else []), int(labels.max()) + 1]
        start = [nn.Linear(width, out) for width, out in pairwise(sizes)]
    members = len(folds[0].penalties)
    weights = members * sum(parameter.numel() for layer in start for parameter in layer.parameters())
    stop = Event()

    def train(group: Sequence[int]) -> list[tuple[int, Trained]]:
        chosen = _Group(features, labels, [folds[index] for index in group], schedule, start)
        return list(zip(group, chosen.train(stop), strict=True))

    with one_thread_each() as pool:
        try:
            groups = _group_folds(folds, schedule.batch_size, weights)
            trained = dict(pair for pairs in pool.map(train, groups) for pair in pairs)
        except BaseException:  # Ctrl-C must not wait until all are trained
            stop.set()
            raise
    return [trained[index] for index in range(len(folds))]


def _group_folds(folds: Sequence[Fold], batch_size: int, weights: int) -> Iterator[list[int]]:
    """Yield folds that take their steps together, which needs equally many steps an epoch."""

    def steps(index: int) -> int:
        return -(-len(folds[index].train) // batch_size)

    # Two groups at least, for two cores; not a group for each core, so that results do not depend on them.
    size = max(1, min(_FOLDS, -(-len(folds) // 2), _WEIGHTS // weights))
    for _, alike in groupby(sorted(range(len(folds)), key=steps), key=steps):
        chosen = list(alike)
        yield from (chosen[start : start + size] for start in range(0, len(chosen), size))


def fit_logistic(features: Tensor, labels: Tensor, fold: Fold) -> Trained:
    """Fit scikit-learn's logistic regression for each C of a fold, to convergence."""
    rows = torch.from_numpy(fold.train)
    texts, classes = features[rows].double().numpy(), labels[rows].numpy()
    network = Network([(int(classes.max()) + 1, texts.shape[1])], 1, len(fold.penalties), features.dtype)
    model = LogisticRegression(solver="lbfgs", max_iter=1000, warm_start=True)
    for member, inverse in enumerate(fold.penalties):  # each begins at the solution of the one before
        model.set_params(C=inverse).fit(texts, classes)
        weight, bias = model.coef_, model.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the second's
            weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        network.weights[0][0, member] = torch.from_numpy(weight)
        network.biases[0][0, member] = torch.from_numpy(bias)
    held = torch.from_numpy(fold.dev)
    right = Trained(np.empty(0), network).predict(features[held]) == labels[held].numpy()
    return Trained(right.mean(axis=1), network)
