"""Which methods of an experiment are better or worse than its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentemb.errors import InputError
from sentemb.evaluation.comparison import Difference, compare
from sentemb.evaluation.schema import Record
from sentemb.evaluation.significance import LEVEL, holm
from sentemb.evaluation.systems import method_of, system_of
from sentemb.experiments.experiment import Setting
from sentemb.experiments.summary import AVERAGE, Summary, metric_of

Key = tuple[str, str, Setting]
"""Label, data set and setting of a summary."""


@dataclass(frozen=True)
class Verdict:
    """A method against the baseline, among the other methods of its column."""

    difference: Difference | None  # of the two alone; None where they cannot be compared
    seeds: int
    p: float | None  # corrected; None of a single seed

    @property
    def marker(self) -> str:
        """An arrow where the difference is significant."""
        if self.difference is None or self.p is None or self.p >= LEVEL:
            return ""
        return " ↑" if self.difference.size > 0 else " ↓"


def verdicts_of(summaries: Sequence[Summary], baseline: str | None) -> dict[Key, Verdict]:
    """Compare every method with the baseline, over the seeds that both have, whatever a table reports.

    Verdicts of the baseline, and where it is missing, are left out.
    """
    verdicts: dict[Key, Verdict] = {}
    compared: dict[tuple[str, int, int], tuple[Mapping[str, Difference], int]] = {}
    for base in summaries:
        if base.label != baseline:
            continue
        others = [one for one in summaries if one.key[1:] == base.key[1:] and one.label != baseline]
        column: dict[Key, tuple[Difference | None, int]] = {}
        for one in others:
            # An encoder's sets are compared together.
            place = (one.label, id(one.records[0]), id(base.records[0]))
            if place not in compared:
                compared[place] = differences_of(base.records, one.records)
            found, seeds = compared[place]
            column[one.key] = found.get(one.data), seeds
        raw = {
            key: max(one.p_items, one.p_seeds)
            for key, (one, _) in column.items()
            if one is not None and one.p_seeds is not None
        }
        corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
        verdicts |= {key: Verdict(one, seeds, corrected.get(key)) for key, (one, seeds) in column.items()}
    return verdicts


def differences_of(
    baseline: Sequence[Record], records: Sequence[Record]
) -> tuple[Mapping[str, Difference], int]:
    """The second method against the first by data set, `average` among them, and how many seeds both have."""
    common = {one.seed for one in baseline} & {one.seed for one in records}
    sides = [[one for one in side if one.seed in common] for side in (baseline, records)]
    if not common:
        return {}, 0
    systems = [system_of(side, method_of(side[0]), measure=metric_of(side[0])) for side in sides]
    try:
        found = compare(*systems, intervals=False)
    except InputError:  # evaluated on other items
        return {}, len(common)
    differences = {one.name: one for one in found.sets}
    return differences | ({} if found.average is None else {AVERAGE: found.average}), len(common)
