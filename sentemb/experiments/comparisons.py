"""Tables that compare the methods of an experiment: differences from the baseline, places and ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from sentemb.evaluation.comparison import CONFIDENCE, DRAWS, Difference, amounts
from sentemb.evaluation.ranks import differing_pairs, rank_scores, resampled_means, shown_ranks
from sentemb.evaluation.statistics import LEVEL
from sentemb.experiments.experiment import Setting
from sentemb.experiments.tables import AVERAGE, Key, Summary, Verdict, differences_of, score_of
from sentemb.report.table import ABSENT, Table

_OUTCOMES: Mapping[str, str] = {" ↑": "better:", " ↓": "worse:", "": "no significant difference:"}
_MOST = 100  # points that a score can differ by


def headlines(summaries: Sequence[Summary]) -> list[Summary]:
    """Return the averages of methods that have one, or all of their data sets."""
    averages = [one for one in summaries if one.data == AVERAGE]
    return averages or list(summaries)


def difference_table(summaries: Sequence[Summary], verdicts: Mapping[Key, Verdict], baseline: str) -> Table:
    """Tabulate comparisons with a baseline: p-values, what could have been shown, and the verdicts."""
    tested = Counter(key[1:] for key, one in verdicts.items() if one.p is not None)
    rows = []
    decided: dict[tuple[str, Setting], dict[str, list[str]]] = {}
    for one in headlines(summaries):
        verdict = verdicts.get(one.key)
        if verdict is None or verdict.difference is None:
            continue
        tests = (verdict.difference.p_items, verdict.difference.p_seeds, verdict.p)
        shown = (ABSENT if p is None else f"{p:.4f}" for p in tests)
        place = (one.label, one.data, str(one.setting), str(verdict.seeds or ABSENT))
        level = LEVEL / max(1, tested[one.data, one.setting])
        evidence = _evidence(verdict.difference, level)
        rows.append((*place, f"{verdict.difference.size:+.1f}{verdict.marker}", *shown, *evidence))
        if verdict.p is not None:
            found = decided.setdefault((one.data, one.setting), {name: [] for name in _OUTCOMES.values()})
            found[_OUTCOMES[verdict.marker]].append(one.label)
    return Table(
        title=f"Differences from {baseline}, x 100",
        header=(
            "method",
            "set",
            "point",
            "seeds",
            "difference",
            "p over rows",
            "p over seeds",
            "p, Holm",
            "detectable",
            "to decide",
        ),
        rows=tuple(rows),
        notes=(
            "p, Holm: the larger of both p-values, Holm-corrected over the methods of a set and point",
            "detectable: the smallest true difference that rows and seeds, each by themselves, show with "
            f"80 % power at {LEVEL:g} divided by the number of these methods",
            "to decide: how many more rows or seeds would show the present difference, if it is the true one",
            *(_sentence(baseline, *place, found) for place, found in decided.items()),
        ),
    )


def _evidence(difference: Difference, level: float) -> tuple[str, str]:
    """Return the smallest difference that could have been shown, and what would show the present one."""
    detectable, missing = difference.detectable(level), difference.missing(level)
    more = amounts(missing, ("rows", "seeds"))
    shown = ABSENT if detectable is None else f"{detectable:.1f}" if detectable <= _MOST else f"over {_MOST}"
    return shown, ", ".join(more) or ABSENT


def _sentence(baseline: str, data: str, setting: Setting, found: Mapping[str, Sequence[str]]) -> str:
    """Return the verdict on a data set, or the average, in words."""
    point = "" if setting.value is None else f" at {setting}"
    outcomes = "; ".join(f"{name} {', '.join(labels)}" for name, labels in found.items() if labels)
    return f"verdict on {data}{point}, compared with {baseline}: {outcomes}"


def rank_table(summaries: Sequence[Summary]) -> Table | None:
    """Tabulate the place of each method among three or more, and the interval of its rank over seeds."""
    cells: dict[str, dict[str, str]] = {}
    compared: dict[tuple[int, int], Mapping[str, Difference]] = {}
    points = {one.setting for one in summaries}
    shown = headlines(summaries)
    for data, setting in dict.fromkeys(one.key[1:] for one in shown):
        own = [one for one in shown if one.key[1:] == (data, setting)]
        drawn = [{run.seed for run in one.records} for one in own if one.is_drawn]
        seeds = set.intersection(*drawn) if drawn else set()
        if len(own) < 3 or len(seeds) < 2:
            continue
        runs = [[run for run in one.records if run.seed is None or run.seed in seeds] for one in own]
        scores = np.array(
            [
                np.resize([score_of(run, data, one.metric) for run in some], len(seeds))
                for one, some in zip(own, runs, strict=True)
            ]
        )
        pairs, p_values = [], []
        for one, other in combinations(own, 2):
            place = (id(one.records[0]), id(other.records[0]))
            if place not in compared:
                compared[place] = differences_of(one.records, other.records)[0]
            if (found := compared[place].get(data)) is not None:
                pairs.append((one.label, other.label))
                p_values.append(found.p_items if found.p_seeds is None else max(found.p_items, found.p_seeds))
        ranked = rank_scores(
            scores.mean(axis=1),
            [one.label for one in own],
            differing_pairs(pairs, p_values),
            resampled_means(scores, DRAWS),
            CONFIDENCE,
        )
        column = data if len(points) == 1 else f"{data} at {setting.text}"
        for each in ranked:
            cells.setdefault(each.name, {})[column] = f"{each.place} ({shown_ranks(each.ranks)})"
    columns = list(dict.fromkeys(column for own in cells.values() for column in own))
    if not cells:
        return None
    return Table(
        title="Places and ranks",
        header=("method", *columns),
        rows=tuple((label, *(own.get(column, ABSENT) for column in columns)) for label, own in cells.items()),
        notes=(
            f"in brackets: {100 * CONFIDENCE:g} % interval of the rank. The items are the seeds that all "
            "methods have: a resample takes the same seeds of each method",
            "methods that share a place do not differ significantly from the first of it; p is the larger "
            "of that of the permutation test over test rows and of the paired t-test over seeds, "
            "Holm-corrected over all pairs",
        ),
    )
