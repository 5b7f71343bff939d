"""Which methods of an experiment are better or worse than its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentemb.evaluation.p_values import holm
from sentemb.experiments.experiment import Setting
from sentemb.experiments.significance import Comparison, compare
from sentemb.experiments.summary import Summary

LEVEL = 0.05
Key = tuple[str, str, Setting]
"""Label, data set and setting of a summary."""


@dataclass(frozen=True)
class Verdict:
    """A method against the baseline, among the other methods of its column.

    Attributes:
        comparison: The two alone; None where they cannot be compared.
        p: The corrected p-value; None of a single seed.
    """

    comparison: Comparison | None
    p: float | None

    @property
    def marker(self) -> str:
        """An arrow where the difference is significant."""
        if self.comparison is None or self.p is None or self.p >= LEVEL:
            return ""
        return " ↑" if self.comparison.difference > 0 else " ↓"


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
        found = {one.key: compare(one.records, base.records) for one in others}
        raw = {key: one.p for key, one in found.items() if one is not None and one.p is not None}
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
        verdicts |= {key: Verdict(one, corrected.get(key)) for key, one in found.items()}
    return verdicts
