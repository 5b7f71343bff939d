"""Logistic regression to convergence, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from sentemb.evaluation.transfer.folds import Fold, Trained
from sentemb.evaluation.transfer.network import Network

_ITERATIONS = 1000


def train_logistic(features: Tensor, labels: Tensor, folds: Sequence[Fold]) -> list[Trained]:
    """Fit a classifier for each fold and C."""
    return [_train(features, labels, fold) for fold in folds]


def _train(features: Tensor, labels: Tensor, fold: Fold) -> Trained:
    rows = torch.from_numpy(fold.train)
    texts, classes = features[rows].double().numpy(), labels[rows].numpy()
    network = Network([(int(classes.max()) + 1, texts.shape[1])], 1, len(fold.penalties), features.dtype)
    model = LogisticRegression(solver="lbfgs", max_iter=_ITERATIONS, warm_start=True)
    for member, inverse in enumerate(fold.penalties):  # each begins at the solution of the one before
        model.set_params(C=inverse).fit(texts, classes)
        weight, bias = model.coef_, model.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the second's
            weight, bias = np.concatenate([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        network.weights[0][0, member] = torch.from_numpy(weight)
        network.biases[0][0, member] = torch.from_numpy(bias)
    trained = Trained(np.empty(0), network)
    held = torch.from_numpy(fold.dev)
    right = trained.predict(features[held]) == labels[held].numpy()
    return Trained(right.mean(axis=1), network)
