"""Which methods of a study are better or worse than its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentemb.evaluation.classification.cell import Point
from sentemb.evaluation.classification.significance import Comparison, compare
from sentemb.evaluation.classification.summary import Summary
from sentemb.evaluation.p_values import holm

LEVEL = 0.05
Key = tuple[str, str, Point]
"""Label, data set and point of a summary."""


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


def judge(summaries: Sequence[Summary], baseline: str) -> dict[Key, Verdict]:
    """Compare every method with the baseline, over all seeds, whatever a table reports.

    Args:
        summaries: The summaries.
        baseline: Label of the baseline.

    Returns:
        Verdicts by label, data set and point; those of the baseline, and where it is not, are left out.
    """
    verdicts: dict[Key, Verdict] = {}
    for base in summaries:
        if base.label != baseline:
            continue
        others = [
            one
            for one in summaries
            if (one.data, one.point) == (base.data, base.point) and one.label != baseline
        ]
        found = {(one.label, one.data, one.point): compare(one.records, base.records) for one in others}
        raw = {key: one.p for key, one in found.items() if one is not None and one.p is not None}
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
        verdicts |= {key: Verdict(one, corrected.get(key)) for key, one in found.items()}
    return verdicts
