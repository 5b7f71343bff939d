"""Seeds of one method as one row: mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.scoring import Protocol
from sentemb.evaluation.table import ABSENT, Table, sts_table


def seed_table(
    records: Sequence[ResultRecord],
    protocol: Protocol = "all",
    *,
    published: Mapping[str, str] | None = None,
) -> Table:
    """Methods by sets: the mean over a method's seeds with the sample standard deviation, Spearman x 100.

    Records whose models differ only in an ending `-seed-N`, N being the record's seed, are one method, which
    is how the folders of a run over several seeds are called.

    Args:
        records: The records, in any order.
        protocol: How subsets are treated.
        published: Method to the figure of its paper, for a last column.

    Returns:
        A row per method in the order of first appearance; a set that one of its seeds lacks is a dash.
    """
    methods: dict[str, list[ResultRecord]] = {}
    for record in records:
        methods.setdefault(method_of(record), []).append(record)
    columns = sts_table(records, protocol)
    first = 2 if any(record.seed is not None for record in records) else 1  # name, seed
    rows_of = dict(zip(map(id, records), columns.rows, strict=True))
    rows = []
    for method, seeds in methods.items():
        cells = zip(*(rows_of[id(record)][first:] for record in seeds), strict=True)
        beside = () if published is None else (published.get(method, ABSENT),)
        rows.append((method, str(len(seeds)), *map(_cell, cells), *beside))
    return Table(
        title=columns.title,
        header=("model", "seeds", *columns.header[first:], *(() if published is None else ("published",))),
        rows=tuple(rows),
        notes=(*columns.notes, "± is the standard deviation over seeds"),
    )


def method_of(record: ResultRecord) -> str:
    """What the records of a method have in common.

    Args:
        record: The record.

    Returns:
        The model's name without the ending `-seed-N`, N being the record's seed.
    """
    return record.model if record.seed is None else record.model.removesuffix(f"-seed-{record.seed}")


def _cell(values: Sequence[str]) -> str:
    if ABSENT in values:
        return ABSENT
    numbers = [float(value) for value in values]
    return f"{mean(numbers):.2f}" + (f" ± {stdev(numbers):.2f}" if len(numbers) > 1 else "")
