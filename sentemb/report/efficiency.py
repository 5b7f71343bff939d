"""What methods cost, beside what their papers say."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from sentemb.errors import InputError
from sentemb.report.table import ABSENT, Table

if TYPE_CHECKING:
    from sentemb.evaluation.timing import Times


def efficiency_table(
    times: Mapping[str, Times], *, title: str, reference: str, published: Mapping[str, tuple[str, str]]
) -> Table:
    """Methods by the median of their seconds, and how many times the reference's these are."""
    if reference not in times:
        raise InputError(f"{reference}, the reference of the comparison, was not measured", "add it")
    base = median(times[reference].inference)
    rows = []
    for name, one in times.items():
        paper = published.get(name, (ABSENT, ABSENT))
        inference = median(one.inference)
        training = f"{median(one.training):.2f}" if one.training else ABSENT
        rows.append((name, training, f"{inference:.2f}", f"{inference / base:.2f}", *paper))
    return Table(
        title=title,
        header=(
            "method",
            "training s",
            "inference s",
            f"× {reference}",
            "published training s",
            "published inference s",
        ),
        rows=tuple(rows),
        notes=(
            (f"medians over {len(times[reference].inference)} rounds; each round measures every method once"),
            "the published seconds were measured on another machine: compare ratios only",
        ),
    )
