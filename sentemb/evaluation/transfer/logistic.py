"""Logistic regression to convergence, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from sentemb.evaluation.transfer.members import Fold, Trained
from sentemb.evaluation.transfer.network import Network

_ITERATIONS = 1000


def train_logistic(features: Tensor, labels: Tensor, folds: Sequence[Fold]) -> list[Trained]:
    """Fit a classifier for each fold and C.

    Args:
        features: `(n, d)` float32.
        labels: `(n,)` class numbers from 0.
        folds: Rows, whose `penalties` are scikit-learn's C.

    Returns:
        The classifiers of each fold, in order.
    """
    return [_train(features, labels, fold) for fold in folds]


def _train(features: Tensor, labels: Tensor, fold: Fold) -> Trained:
    rows = torch.from_numpy(fold.train)
    texts, classes = features[rows].double().numpy(), labels[rows].numpy()
    weights, biases = [], []
    model = LogisticRegression(solver="lbfgs", max_iter=_ITERATIONS, warm_start=True)
    for inverse in fold.penalties:  # each begins at the solution of the one before
        model.set_params(C=inverse).fit(texts, classes)
        weight, bias = model.coef_, model.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the second's
            weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        weights.append(torch.from_numpy(weight.T.copy()).to(features))
        biases.append(torch.from_numpy(bias.copy()).to(features))
    network = Network(torch.stack(weights, dim=1).unsqueeze(0), torch.stack(biases).unsqueeze(0))
    held = torch.from_numpy(fold.dev)
    right = network.logits(features[held].unsqueeze(0))[0].argmax(dim=2) == labels[held].unsqueeze(1)
    return Trained(right.double().mean(dim=0).numpy(), network)
