"""The classifiers that published transfer scores were made with, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sentemb.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How SentEval trains a network with one layer, or with a hidden one, by batches.

    Every `epoch_size` passes the network is scored on rows that it is not trained on. Scores that are no
    new best are counted, also when a best one comes between them; the one after `tenacity` of them ends the
    training, and the weights of the best score are kept.
    """

    hidden: int  # units of the hidden layer with its sigmoid; 0 for none
    optimizer: Literal["adam", "rmsprop"]  # with torch's learning rates of 1e-3 and 1e-2
    batch_size: int  # rows of a step
    tenacity: int
    epoch_size: int
    max_epochs: int = 200  # a network that has seen more passes is not trained further

    @property
    def learning_rate(self) -> float:
        """Torch's default of the optimizer, which SentEval leaves as it is."""
        return 1e-3 if self.optimizer == "adam" else 1e-2


@dataclass(frozen=True, kw_only=True)
class NeuralPreset(Schedule):
    """SentEval's own classifier: logistic regression, or one hidden layer."""

    folds: int  # k of the cross-validations
    # weight decay, L2 in the gradient, among which validation chooses
    penalties: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
    # part of the training rows that stops the last fit, where a task has no dev split
    validation_share: float = 0.05

    @property
    def fold_penalties(self) -> tuple[float, ...]:
        """The same of tasks that validate by folds of their training split."""
        return self.penalties


@dataclass(frozen=True, kw_only=True)
class LogisticPreset:
    """L2-regularised logistic regression to convergence: no seed, no batches, no early stop."""

    folds: int  # k of the cross-validations
    penalties: tuple[float, ...]  # C of scikit-learn, an inverse, among which validation chooses
    fold_penalties: tuple[float, ...]  # the same of tasks that validate by folds of their training split


Preset = NeuralPreset | LogisticPreset

REGRESSION = Schedule(hidden=0, optimizer="adam", batch_size=64, tenacity=3, epoch_size=50, max_epochs=1000)
"""Of the trained regression, which has no settings: a layer without weight decay, scored every 50 passes."""

PRESETS: Mapping[str, Preset] = {
    # SBERT-WK's script, which SG-BERT's table 9 follows.
    "sg-bert": NeuralPreset(hidden=50, optimizer="adam", batch_size=64, tenacity=5, epoch_size=4, folds=10),
    # SimCSE's evaluation.py, mode test.
    "simcse": NeuralPreset(hidden=0, optimizer="adam", batch_size=64, tenacity=5, epoch_size=4, folds=10),
    # SimCSE's mode fasttest, which is SentEval's "prototyping" setting and BERT-flow's.
    "simcse-fast": NeuralPreset(
        hidden=0, optimizer="rmsprop", batch_size=128, tenacity=3, epoch_size=2, folds=5
    ),
    # The grids of C of SentEval's scikit-learn classifiers (validation.py): that of TREC and MRPC, its
    # KFoldClassifier, has 2**-1 to 2**5, the others have 2**-2 to 2**3.
    "logreg": LogisticPreset(
        folds=10,
        penalties=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        fold_penalties=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    ),
}
"""By name."""


def get_preset(name: str) -> Preset:
    """Look a preset up."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}", f"choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
