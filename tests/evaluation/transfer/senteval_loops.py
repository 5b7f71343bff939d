"""SentEval's classifier and cross-validations the plain way: one network, one fold, one batch at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import nn

from sentemb.evaluation.transfer.tasks import NeuralPreset


@dataclass
class OneClassifier:
    """A classifier that is trained alone."""

    preset: NeuralPreset
    width: int
    classes: int
    penalty: float
    seed: int
    model: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.RandomState(self.seed)
        torch.manual_seed(self.seed)
        if self.preset.hidden:
            layers = [nn.Linear(self.width, self.preset.hidden), nn.Sigmoid()]
            self.model = nn.Sequential(*layers, nn.Linear(self.preset.hidden, self.classes))
        else:
            self.model = nn.Sequential(nn.Linear(self.width, self.classes))
        kind = torch.optim.Adam if self.preset.optimizer == "adam" else torch.optim.RMSprop
        self.optimizer = kind(self.model.parameters(), weight_decay=self.penalty)

    def fit(self, x, y, dev=None) -> float:
        if dev is None:
            order = self.random.permutation(len(x))
            held = int(self.preset.validation_share * len(x))
            dev = x[order[:held]], y[order[:held]]
            x, y = x[order[held:]], y[order[held:]]
        best, kept, misses, epochs = -1.0, None, 0, 0
        while epochs <= self.preset.max_epochs:
            for _ in range(self.preset.epoch_size):
                self._epoch(x, y)
            epochs += self.preset.epoch_size
            accuracy = self.score(*dev)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.model)
            else:
                if misses >= self.preset.tenacity:
                    break
                misses += 1
        self.model = kept
        return best

    def _epoch(self, x, y) -> None:
        order = self.random.permutation(len(x))
        for start in range(0, len(x), self.preset.batch_size):
            rows = order[start : start + self.preset.batch_size]
            loss = nn.functional.cross_entropy(self.model(x[rows]), y[rows])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def predict(self, x) -> np.ndarray:
        with torch.no_grad():
            return self.model(x).argmax(dim=1).numpy()

    def score(self, x, y) -> float:
        return float(np.mean(self.predict(x) == y.numpy()))


def nested(x, y, preset: NeuralPreset, seed: int) -> tuple[float, float, list[float]]:
    """Accuracy, dev accuracy and the chosen penalties of a task without splits."""
    outer = StratifiedKFold(n_splits=preset.folds, shuffle=True, random_state=1111)
    accuracies, validated, chosen = [], [], []
    for train, test in outer.split(x, y):
        means = inner_means(x[train], y[train], preset, seed, fold_seed=1111)
        chosen.append(preset.penalties[int(np.argmax(means))])
        validated.append(max(means))
        classifier = OneClassifier(preset, x.shape[1], int(y.max()) + 1, chosen[-1], seed)
        classifier.fit(x[train], y[train])
        accuracies.append(round(100 * classifier.score(x[test], y[test]), 2))
    return round(float(np.mean(accuracies)), 2), round(float(np.mean(validated)), 2), chosen


def inner_means(x, y, preset: NeuralPreset, seed: int, *, fold_seed: int) -> list[float]:
    """Mean accuracy of each penalty over the folds."""
    folds = StratifiedKFold(n_splits=preset.folds, shuffle=True, random_state=fold_seed)
    means = []
    for penalty in preset.penalties:
        scores = []
        for train, test in folds.split(x, y):
            classifier = OneClassifier(preset, x.shape[1], int(y.max()) + 1, penalty, seed)
            classifier.fit(x[train], y[train], (x[test], y[test]))
            scores.append(classifier.score(x[test], y[test]))
        means.append(round(100 * float(np.mean(scores)), 2))
    return means
