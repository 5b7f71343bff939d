"""A comparison as a table."""

from __future__ import annotations

from collections.abc import Sequence

from sentemb.evaluation.comparison.differences import LEVEL, Comparison, Difference
from sentemb.evaluation.p_values import holm
from sentemb.evaluation.table import ABSENT, Table


def comparison_table(comparison: Comparison) -> Table:
    """Set by set: both scores, their difference with its interval, and how sure it is.

    Args:
        comparison: The comparison.

    Returns:
        The table; real differences are bold.
    """
    lines = [*comparison.sets, *([comparison.average] if comparison.average else [])]
    correlation = comparison.measure != "accuracy"
    single = comparison.runs == (1, 1) and correlation
    header = ["set", comparison.first, comparison.second, "difference", f"{100 * comparison.confidence:g} %"]
    header += ["p, items", "p, seeds", "p"]
    if single:
        header.append("Williams")
    rows = tuple((*_cells(line), *([_p(line.p_williams)] if single else [])) for line in lines)
    return Table(
        title=f"{comparison.second} against {comparison.first}, {comparison.measure} x 100",
        header=tuple(header),
        rows=rows,
        notes=(
            "difference: second minus first; its interval is the paired bootstrap's over items",
            "p, items: permutation test; p, seeds: t-test over runs; p: the larger, after Holm over sets",
            "± is the standard deviation over runs",
            comparison.sentence(),
        ),
        best=frozenset((place, 3) for place, line in enumerate(lines) if line.real),
    )


def significance_table(comparisons: Sequence[Comparison]) -> Table:
    """Systems against the same one, on the average or the only set: a row each."""
    lines = [one.average or one.sets[0] for one in comparisons]
    own = holm([line.p for line in lines])
    first = comparisons[0]
    sets = "the average" if first.average else first.sets[0].name
    header = ["system", "runs", first.measure, "difference", f"{100 * first.confidence:g} %"]
    runs = f"{first.runs[0]} run{'' if first.runs[0] == 1 else 's'}"
    rows = tuple(
        (one.second, str(one.runs[1]), *_cells(line)[2:-1], _p(p))
        for one, line, p in zip(comparisons, lines, own, strict=True)
    )
    return Table(
        title=f"Against {first.first} ({lines[0].scores[0]:.2f}, {runs}), {sets}, x 100",
        header=(*header, "p, items", "p, seeds", "p"),
        rows=rows,
        notes=(
            "difference: its interval is the paired bootstrap's over items",
            "p, items: permutation test; p, seeds: t-test over runs; p: the larger, after Holm over the rows",
            "bold: p below 0.05; ± is the standard deviation over runs",
        ),
        best=frozenset((place, 3) for place, p in enumerate(own) if p < LEVEL),
    )


def _cells(line: Difference) -> tuple[str, ...]:
    scores = [
        f"{score:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
        for score, deviation in zip(line.scores, line.deviations, strict=True)
    ]
    low, high = line.interval
    return (
        line.name,
        *scores,
        f"{line.size:+.2f}",
        f"{low:+.2f} to {high:+.2f}",
        _p(line.p_items),
        _p(line.p_seeds),
        _p(line.p),
    )


def _p(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
