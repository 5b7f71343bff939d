"""Records of any suites as the tables that verbs show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentemb.evaluation.record import Record
from sentemb.report.results import geometry_table, relatedness_table, sts_table, transfer_table
from sentemb.report.table import Table


def tables_of(records: Sequence[Record]) -> Iterator[Table]:
    """A table for each suite and protocol, in the order of the records."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.suite, record.protocol), []).append(record)
    for (suite, protocol), some in groups.items():
        if suite in ("sts", "multilingual"):
            yield sts_table(some, seeds_apart=True)
        elif suite == "geometry":
            yield geometry_table(some)
        elif suite == "transfer":
            table, related = transfer_table(some, protocol), relatedness_table(some)
            yield from (one for one in (table, related) if one is not None and one.rows)
