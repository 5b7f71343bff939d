"""Is a method better than another, or was it these test rows and these seeds?

Two questions are asked of two methods that were run on the same test rows with the same seeds:

- Would the difference be there on other test rows? Permutation over rows: under the null hypothesis both
  methods' predictions for a row may be exchanged, those of all seeds at once, since the runs of a method are
  wrong on the same rows. This holds for any metric.
- Would it be there with other seeds? Student's paired t-test over the seeds' scores.

A difference counts only if both say so: the p-value of the pair is the larger one, which is a valid test of
"at least one of the two null hypotheses holds". The first question alone would make seeds' luck significant
on large test sets, the second alone the luck of 277 rows of RTE. Over the methods of a table p-values are
corrected by Holm's procedure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from sentemb.evaluation.measures import scores_of_counts
from sentemb.evaluation.p_values import p_of_differences
from sentemb.evaluation.record import Record, load_predictions
from sentemb.experiments.summary import metric_of

Numbers = npt.NDArray[np.int64]
PERMUTATIONS = 2000
# A block of drawn exchanges takes 32 MiB.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Comparison:
    """A method against the baseline.

    Attributes:
        difference: Mean score over the common seeds minus the baseline's, as a fraction.
        seeds: How many seeds both have.
        p_rows: Of the permutation over test rows.
        p_seeds: Of the t-test over seeds; None of a single seed.
    """

    difference: float
    seeds: int
    p_rows: float
    p_seeds: float | None

    @property
    def p(self) -> float | None:
        """The p-value of the pair: the larger of the two; None where there is one seed."""
        return None if self.p_seeds is None else max(self.p_rows, self.p_seeds)


def compare(
    records: Sequence[Record], baseline: Sequence[Record], *, permutations: int = PERMUTATIONS
) -> Comparison | None:
    """Compare a method with the baseline on one data set at one setting.

    Args:
        records: The method's runs.
        baseline: The baseline's runs.
        permutations: How many exchanges are drawn; the smallest p-value is one over it.

    Returns:
        The comparison, over the seeds that both have; None where there is none, where the test rows differ,
        or where labels are scores.
    """
    ours, theirs = {run.seed: run for run in records}, {run.seed: run for run in baseline}
    seeds = sorted(ours.keys() & theirs.keys(), key=lambda seed: seed or 0)
    if not seeds or not baseline[0].datasets[0].classes:
        return None
    pairs = [(ours[seed], theirs[seed]) for seed in seeds]
    if len({run.datasets[0].sha256 for pair in pairs for run in pair}) > 1:
        return None
    differences = [_score(one) - _score(other) for one, other in pairs]
    return Comparison(
        difference=float(np.mean(differences)),
        seeds=len(seeds),
        p_rows=_permutation(pairs, permutations),
        p_seeds=p_of_differences(differences),
    )


def _score(record: Record) -> float:
    return record.score(record.datasets[0].name, metric_of(record))


def _permutation(pairs: Sequence[tuple[Record, Record]], permutations: int) -> float:
    """The share of exchanges, the observed one counted, with a difference as large as the observed one."""
    metric, data = metric_of(pairs[0][0]), pairs[0][0].datasets[0]
    gold, classes = load_predictions(pairs[0][0]).gold[data.name].astype(np.int64), len(data.classes)
    cells = [(_cells(gold, one, classes), _cells(gold, other, classes)) for one, other in pairs]
    observed = _mean_difference(metric, classes, [_counts(*pair, classes) for pair in cells])[0]
    changes = [_changes(*pair, classes) for pair in cells]
    rng = np.random.default_rng(0)
    as_large, drawn = 1, 0
    while drawn < permutations:
        size = min(permutations - drawn, max(1, _BLOCK // len(gold)))
        exchanged = rng.integers(0, 2, size=(size, len(gold)), dtype=np.int8).astype(np.float64)
        sides = []
        for pair, change in zip(cells, changes, strict=True):
            first, second = _counts(*pair, classes)
            moved = np.asarray(exchanged @ change)  # (size, classes * classes)
            sides.append((first + moved, second - moved))
        found = _mean_difference(metric, classes, sides)
        # Equal differences must count as equal whatever their last bits.
        as_large += int((np.abs(found) >= abs(observed) - 1e-12).sum())
        drawn += size
    return as_large / (permutations + 1)


def _mean_difference(
    metric: str, classes: int, sides: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
) -> npt.NDArray[np.float64]:
    shape = (-1, classes, classes)
    per_seed = [
        scores_of_counts(metric, one.reshape(shape)) - scores_of_counts(metric, other.reshape(shape))
        for one, other in sides
    ]
    return np.asarray(np.mean(per_seed, axis=0))


def _cells(gold: Numbers, record: Record, classes: int) -> Numbers:
    """Where each row falls in the confusion matrix, written as one line."""
    predictions = load_predictions(record).values[record.datasets[0].name]
    return gold * classes + predictions.astype(np.int64)


def _counts(
    first: Numbers, second: Numbers, classes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    counts = [np.bincount(side, minlength=classes * classes).astype(np.float64) for side in (first, second)]
    return counts[0], counts[1]


def _changes(first: Numbers, second: Numbers, classes: int) -> csr_array:
    """What exchanging a row does to the first side's confusion matrix, shape (rows, classes * classes)."""
    rows = np.arange(len(first))
    values = np.repeat([-1.0, 1.0], len(first))
    places = (np.concatenate([rows, rows]), np.concatenate([first, second]))
    return csr_array((values, places), shape=(len(first), classes * classes))
