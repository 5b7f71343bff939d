"""Which methods of an experiment are better or worse than its baseline.

Two questions are asked of two methods that were run on the same test rows with the same seeds, as in every
comparison of `sentemb.evaluation`: would the difference be there on other test rows, and would it be there
with other seeds? The first alone would make seeds' luck significant on large test sets, the second alone the
luck of 277 rows of RTE, so the larger p-value counts. Over the methods of a table it is corrected by Holm's
procedure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sentemb.evaluation.comparison import DRAWS, Difference, compare
from sentemb.evaluation.record import Record
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.systems import system_of
from sentemb.experiments.experiment import Setting
from sentemb.experiments.summary import Summary, metric_of

Key = tuple[str, str, Setting]
"""Label, data set and setting of a summary."""


@dataclass(frozen=True)
class TrialComparison:
    """A method against the baseline on one data set at one setting.

    Attributes:
        size: Mean score over the common seeds minus the baseline's, in the scale of the records.
        seeds: How many seeds both have.
        difference: The same x 100, with its p-values.
    """

    size: float
    seeds: int
    difference: Difference

    @property
    def p(self) -> float | None:
        """The larger of the two p-values; None of a single seed."""
        return None if self.difference.p_seeds is None else self.difference.p


@dataclass(frozen=True)
class Verdict:
    """A method against the baseline, among the other methods of its column.

    Attributes:
        comparison: The two alone; None where they cannot be compared.
        p: The corrected p-value; None of a single seed.
    """

    comparison: TrialComparison | None
    p: float | None

    @property
    def marker(self) -> str:
        """An arrow where the difference is significant."""
        if self.comparison is None or self.p is None or self.p >= LEVEL:
            return ""
        return " ↑" if self.comparison.size > 0 else " ↓"


def verdicts_of(summaries: Sequence[Summary], baseline: str | None) -> dict[Key, Verdict]:
    """Compare every method with the baseline, over all seeds, whatever a table reports.

    Args:
        summaries: The summaries.
        baseline: Label of the baseline.

    Returns:
        Verdicts by label, data set and setting; those of the baseline, and where it is missing, are left out.
    """
    verdicts: dict[Key, Verdict] = {}
    for base in summaries:
        if base.label != baseline:
            continue
        others = [one for one in summaries if one.key[1:] == base.key[1:] and one.label != baseline]
        found = {one.key: compare_trials(one.records, base.records) for one in others}
        raw = {key: one.p for key, one in found.items() if one is not None and one.p is not None}
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
        verdicts |= {key: Verdict(one, corrected.get(key)) for key, one in found.items()}
    return verdicts


def compare_trials(
    records: Sequence[Record], baseline: Sequence[Record], *, draws: int = DRAWS
) -> TrialComparison | None:
    """Compare a method with the baseline over the seeds that both have; None where the test rows differ.

    Args:
        records: The method's runs on one data set at one setting.
        baseline: The baseline's runs.
        draws: How many exchanges are drawn; the smallest p-value is one over it.

    Returns:
        The comparison; None where there is no common seed, where the test rows differ, or where labels are
        scores.
    """
    ours, theirs = ({run.seed: run for run in runs} for runs in (records, baseline))
    seeds = sorted(ours.keys() & theirs.keys(), key=lambda seed: seed or 0)
    data = baseline[0].datasets[0]
    if not seeds or not data.classes:
        return None
    sides = [[runs[seed] for seed in seeds] for runs in (theirs, ours)]
    if {run.datasets[0].sha256 for side in sides for run in side} != {data.sha256}:
        return None
    metric = metric_of(baseline[0])
    systems = [system_of(side, side[0].model, measure=metric) for side in sides]
    sizes = [ours[seed].score(data.name, metric) - theirs[seed].score(data.name, metric) for seed in seeds]
    (difference,) = compare(*systems, draws=draws, intervals=False).sets
    return TrialComparison(fmean(sizes), len(seeds), difference)
